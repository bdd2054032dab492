"""config.json of a run, with a right checksum where it can have one, without, and as any bytes."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import tempfile
from pathlib import Path

from flashsac.config.presets import LAPTOP
from flashsac.config.schema import to_dict
from flashsac.errors import FlashSACError
from flashsac.runs.directory import Run, read_config, read_task_and_seed
from flashsac.runs.seal import seal_readable


@functools.cache
def _run() -> tempfile.TemporaryDirectory:
    """It is deleted with the process."""
    return tempfile.TemporaryDirectory()


def _record() -> dict:
    config = to_dict(LAPTOP)
    return {
        "task": "gym:Pendulum-v1",
        "config": config,
        "versions": {"python": "3"},
        "machine": {"cpus": 2, "gpus": []},
    }


def seeds() -> list[bytes]:
    """As version 0.1.0 wrote it, and as it is written now."""
    return [json.dumps(_record(), indent=2).encode(), seal_readable(_record() | {"id": "ab12"}).encode()]


def _sealed(data: bytes) -> bytes:
    try:
        content = json.loads(data)
        content.pop("sha256", None)
        return seal_readable(content).encode()
    except (ValueError, AttributeError, TypeError, RecursionError):
        return data


def attack(data: bytes) -> bool:
    """The bytes as the file, and with the checksum that belongs to them."""
    run, accepted = Path(_run().name), False
    for content in (data, _sealed(data)):
        (run / "config.json").write_bytes(content)
        for read in (read_config, read_task_and_seed, lambda path: Run.open(path).close()):
            with contextlib.suppress(FlashSACError), contextlib.redirect_stderr(io.StringIO()):
                read(run)
                accepted = True
    return accepted
