"""What others may do at given moments of a run: runners, benchmarks, tests. Nobody needs to override the trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from flashsac.errors import FlashSACError

Phase = Literal["acting", "simulation", "replay", "learning"]
"""The parts of one iteration. With overlap, simulation appears twice: sending the actions, and waiting for the
outcome."""


class Hooks:
    """Every method is called with the `Trainer` and does nothing here; override those you need. An exception ends the
    run."""

    METRICS: Mapping[str, str] = {}
    """Name and meaning of each metric that `row_metrics` returns. Each is a column of metrics.csv. A run that
    is resumed without the hook keeps the column, and leaves the cells of the new rows empty."""

    def before_step(self, trainer: Any) -> None:
        """An iteration begins; `trainer.stop()` makes it the last one."""

    def after_phase(self, trainer: Any, phase: Phase) -> None:
        """A part of the iteration has ended."""

    def after_update(self, trainer: Any, metrics: dict[str, Tensor]) -> None:
        """One gradient update has ended. Reading a metric waits for the device."""

    def row_metrics(self, trainer: Any) -> Mapping[str, float]:
        """Numbers to add to the row that is about to be written; a metric that is left out leaves its cell empty. The
        time that this takes does not count as training."""
        return {}

    def after_row(self, trainer: Any, row: dict[str, float]) -> None:
        """A row of metrics.csv was written."""

    def after_save(self, trainer: Any, checkpoint: Path) -> None:
        """A checkpoint is whole on disk."""


def declared_metrics(hooks: Sequence[Hooks], taken: Sequence[str]) -> list[str]:
    """The columns of the hooks' metrics. A name that is `taken`, or declared twice, is an error."""
    names = [name for hook in hooks for name in hook.METRICS]
    if twice := [name for index, name in enumerate(names) if name in taken or name in names[:index]]:
        raise FlashSACError(f"a hook declares the metric '{twice[0]}', which exists already. Give it another name.")
    return names
