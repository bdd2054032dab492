"""metrics.csv, as a resumed run and a report read it."""

from __future__ import annotations

import contextlib
import functools
import json
import tempfile
from pathlib import Path

from flashsac.errors import FlashSACError
from flashsac.experiments.curves import band, read_curve
from flashsac.runs.metrics_file import read_metrics_file

COLUMNS = ("step", "seconds", "eval_return", "return")


@functools.cache
def _run() -> tempfile.TemporaryDirectory:
    """A run directory; it is deleted with the process."""
    kept = tempfile.TemporaryDirectory()
    content = {"task": "gym:Pendulum-v1", "config": {"seed": 0}}
    (Path(kept.name) / "config.json").write_text(json.dumps(content))
    return kept


def seeds() -> list[bytes]:
    rows = "".join(f"{step},{step / 7},{-step},{'' if step % 200 else 0.5}\n" for step in range(100, 1000, 100))
    text = ",".join(COLUMNS) + "\n" + rows
    return [
        text.encode(),
        text.replace("\n", "\r\n").encode("utf-8-sig"),
        b"step,seconds,eval_return\n1,nan,inf\n2,1e308,-0\n",
    ]


def attack(data: bytes) -> bool:
    run = Path(_run().name)
    (run / "metrics.csv").write_bytes(data)
    for columns in ((), COLUMNS):
        rows, damaged = read_metrics_file(run / "metrics.csv", columns)
        assert all("step" in row for row in rows)
        assert sum(map(len, damaged)) <= len(data)
    with contextlib.suppress(FlashSACError):
        curve = read_curve(run)
        if curve is not None:
            band([curve], "step")
    return bool(rows)
