"""Write docs/reference/metrics.md from the METRICS that the parts of a run declare. Run it after a change: a test
compares both."""

from __future__ import annotations

import inspect
from pathlib import Path

from flashsac.training.build import PARTS

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "reference" / "metrics.md"
HEAD = """\
# Metrics

<!-- Written by scripts/metrics_reference.py; do not edit. -->

These are the columns of `metrics.csv`, in their order. TensorBoard and Weights & Biases get the same numbers.
A column is empty in rows where its part has nothing to report. The last column links the file that declares it.

| Column | Meaning | Declared in |
|---|---|---|
"""


def _source(part: type) -> str:
    file = Path(inspect.getfile(part)).relative_to(ROOT / "src" / "flashsac").as_posix()
    return f"[{file}](../../src/flashsac/{file})"


def text() -> str:
    """Return the whole page."""
    rows = [f"| `{name}` | {meaning} | {_source(part)} |" for part in PARTS for name, meaning in part.METRICS.items()]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    OUT.write_text(text(), encoding="utf-8")
    print(f"wrote {OUT.relative_to(ROOT)}")
