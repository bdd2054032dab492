"""Write docs/reference/metrics.md from the METRICS that the parts of a run declare. Run it after a change: a test
compares both."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

from flashsac.core import diagnostics
from flashsac.training.build import PARTS

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "reference" / "metrics.md"
HEAD = """\
# Metrics

<!-- Written by scripts/metrics_reference.py; do not edit. -->

These are the columns of `metrics.csv`, in their order. TensorBoard and Weights & Biases get the same numbers.
A column is empty in rows where its part has nothing to report. The last column links the file that declares it.
The columns that begin with `diag/` exist with `--diagnostics.every` above 0
([diagnostics](../experiments/diagnostics.md)). LAYER stands for `embed`, `block1.expand`, `block1.contract` and so on,
then `head` in the critic and `mean` and `log_std` in the actor. Your own hooks add columns of their own
([training/hooks.py](../../src/flashsac/training/hooks.py)).

| Column | Meaning | Declared in |
|---|---|---|
"""


def _source(part: type | ModuleType) -> str:
    file = Path(inspect.getfile(part)).relative_to(ROOT / "src" / "flashsac").as_posix()
    return f"[{file}](../../src/flashsac/{file})"


def text() -> str:
    """Return the whole page."""
    declared = [*((part, part.METRICS) for part in PARTS), (diagnostics, diagnostics.documented_metrics())]
    rows = [f"| `{name}` | {meaning} | {_source(part)} |" for part, some in declared for name, meaning in some.items()]
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    OUT.write_text(text(), encoding="utf-8")
    print(f"wrote {OUT.relative_to(ROOT)}")
