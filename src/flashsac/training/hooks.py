"""What others may do at given moments of a run: runners, benchmarks, tests. Nobody needs to override the trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from torch import Tensor

Phase = Literal["acting", "simulation", "replay", "learning"]
"""The parts of one iteration. With overlap, simulation appears twice: sending the actions, and waiting for the
outcome."""


class Hooks:
    """Every method is called with the `Trainer` and does nothing here; override those you need. An exception ends the
    run."""

    def before_step(self, trainer: Any) -> None:
        """An iteration begins; `trainer.stop()` makes it the last one."""

    def after_phase(self, trainer: Any, phase: Phase) -> None:
        """A part of the iteration has ended."""

    def after_update(self, trainer: Any, metrics: dict[str, Tensor]) -> None:
        """One gradient update has ended. Reading a metric waits for the device."""

    def after_row(self, trainer: Any, row: dict[str, float]) -> None:
        """A row of metrics.csv was written."""

    def after_save(self, trainer: Any, checkpoint: Path) -> None:
        """A checkpoint is whole on disk."""
