"""What a launcher is: it starts trials somewhere, and says how they ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from flashsac.experiments.trial import Trial


class Job(Protocol):
    """A trial that a launcher has taken over."""

    def poll(self) -> int | None:
        """The exit code of the trial's process, or None while it waits or works."""

    def stop(self) -> None:
        """Ask the trial to save a checkpoint and end. `poll` says when it has."""

    def kill(self) -> None:
        """End the trial at once."""


class Launcher(Protocol):
    """A place where trials run."""

    slots: int
    """How many trials may be with the launcher at a time."""

    def fits(self, trial: Trial, running: Sequence[Trial]) -> bool:
        """True if this trial can start now, beside those that run."""

    def start(self, trial: Trial) -> Job:
        """Start a trial, or put it into a queue."""

    def close(self) -> None:
        """Give back what was opened."""
