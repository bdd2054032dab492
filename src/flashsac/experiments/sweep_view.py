"""What the user sees of a sweep: on a terminal a live table, plain lines elsewhere."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from flashsac.experiments.driver import State, Status, at_rest, sentence
from flashsac.experiments.sweep_progress import TrialProgress, progress_of, seconds_left
from flashsac.training.progress import clock, console_of

REFRESH = 2.0
"""Seconds between two looks at the metrics."""
PLAIN_INTERVAL = 60.0
"""Seconds between plain lines."""


class SweepView:
    """A live table of the trials that run, and the totals."""

    def __init__(self, slots: int):
        self._console = console_of()
        self._slots, self._live = slots, None
        self._read, self._said, self._counted = 0.0, 0.0, ""
        self._progress: dict[str, TrialProgress] = {}
        self._settled: set[str] = set()

    def __enter__(self) -> SweepView:
        if self._console.is_terminal:
            from rich.live import Live

            live: Any = Live(console=self._console, auto_refresh=False)
            live.start()
            self._live = live
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()

    def say(self, line: str) -> None:
        self._console.print(line, markup=False)

    def show(self, statuses: Sequence[Status]) -> None:
        """Show where the trials stand, if that has changed or some time has passed."""
        now = time.monotonic()
        counted = sentence(statuses)
        if now - self._read < REFRESH and counted == self._counted:
            return
        self._read = now
        self._look(statuses)
        left = seconds_left(statuses, self._progress, self._slots)
        total = counted + ("" if not left else f"; about {clock(left)} left")
        if self._live is not None:
            self._live.update(self._table(statuses, total), refresh=True)
        elif counted != self._counted or now - self._said > PLAIN_INTERVAL:
            self._said = now
            self.say(total)
            for status in statuses:
                if status.state is State.RUNNING and self._progress[status.trial.path].step:
                    self.say(self._line(status))
        self._counted = counted

    def _look(self, statuses: Sequence[Status]) -> None:
        for status in statuses:
            path = status.trial.path
            moving = status.state in (State.RUNNING, State.ELSEWHERE)
            if path not in self._settled:
                self._progress[path] = progress_of(status.trial)
            if moving:
                self._settled.discard(path)
            else:
                self._settled.add(path)

    def _cells(self, status: Status) -> tuple[str, ...]:
        trial, progress = status.trial, self._progress[status.trial.path]
        return (
            trial.task,
            trial.variant,
            str(trial.seed),
            status.state.value,
            f"{progress.step:,}/{progress.steps:,}",
            "" if progress.rate is None else f"{progress.rate:.0f}/s",
            "" if progress.value is None else f"{progress.value:.4g}",
            clock(progress.seconds_left) if progress.seconds_left and status.state is State.RUNNING else "",
        )

    def _line(self, status: Status) -> str:
        task, variant, seed, _, step, rate, value, left = self._cells(status)
        parts = [
            f"  {task} {variant} seed {seed}",
            step,
            f"return {value}" if value else "",
            rate and f"{rate[:-2]} steps/s",
        ]
        return "  ".join(filter(None, [*parts, f"left {left}" if left else ""]))

    def _table(self, statuses: Sequence[Status], total: str) -> Any:
        """The rows of trials at work and of failed ones: all of them would not fit on a screen."""
        from rich.table import Table

        table = Table(caption=total)
        for column in ("task", "variant", "seed", "state", "step", "speed", "return", "left"):
            table.add_column(column, no_wrap=True)
        for status in statuses:
            if status.state in (State.RUNNING, State.ELSEWHERE, State.FAILED):
                table.add_row(*self._cells(status))
        return table


def lines(statuses: Sequence[Status], slots: int) -> list[str]:
    """Return one line for each trial and an estimate of the time, for a dry run."""
    progress = {status.trial.path: progress_of(status.trial) for status in statuses}
    width = max(len(status.trial.name) for status in statuses)
    left = seconds_left(statuses, progress, slots)
    estimate = (
        "no estimate before a trial has a pace" if left is None else f"about {clock(left)} left, {slots} at a time"
    )
    statuses = [_resting(status) for status in statuses]
    return [
        *(
            f"{status.state.value:<11} {status.trial.name:<{width}}  {progress[status.trial.path].step:,}"
            f"/{progress[status.trial.path].steps:,} steps"
            for status in statuses
        ),
        f"{sentence(statuses)}; {estimate}",
    ]


def _resting(status: Status) -> Status:
    """Return a status that nobody waits for."""
    return dataclasses.replace(status, state=at_rest(status.trial)) if status.state is State.WAITING else status
