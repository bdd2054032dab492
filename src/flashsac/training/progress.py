"""What a user sees while a run trains: on a terminal a live bar and the evaluations, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

PLAIN_INTERVAL = 5.0
"""Seconds between plain progress lines; evaluations are always shown."""


class _Stdout:
    """Standard output without its errors: a full disk, or a reader or terminal that is gone, must not end a run."""

    def __init__(self) -> None:
        self._file = sys.stdout

    def write(self, text: str) -> int:
        with self._without_errors():
            self._file.write(text)
        return len(text)

    def flush(self) -> None:
        with self._without_errors():
            self._file.flush()

    @contextlib.contextmanager
    def _without_errors(self) -> Iterator[None]:
        with contextlib.suppress(OSError):
            try:
                yield
            except BrokenPipeError:  # it stays broken: whoever else prints in this process must not meet it either
                os.dup2(os.open(os.devnull, os.O_WRONLY), self._file.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def console_of(quiet: bool = False) -> Any:
    """A console of rich on standard output, whose errors end nothing."""
    from rich.console import Console

    stdout: Any = _Stdout()
    return Console(file=stdout, highlight=False, emoji=False, quiet=quiet, soft_wrap=True)


class Progress:
    """A live bar with the time left on a terminal, plain lines elsewhere. Everything the user sees while training goes
    here."""

    def __init__(self, total: int, quiet: bool = False):
        self._console = console_of(quiet)
        self._total, self._quiet, self._said = total, quiet, 0.0
        self._about = ""  # before a total that is an estimate
        self._shown = (0, 0.0)  # step and training seconds of the last line
        self._pace: tuple[int, float] | None = None  # step and time of the first row after learning began
        self._warm_up = ""
        self._bar: Any = None

    def begin(self, start: int, seconds: float = 0.0, warm_up: str = "random steps") -> None:
        """Training starts now, from this step; `seconds` of training came before.

        In the warm-up, `warm_up` stands in place of the time left."""
        self._shown, self._warm_up = (start, seconds), warm_up
        if self._console.is_terminal and not self._quiet:
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.completed:,}/{task.fields[about]}{task.total:,} steps"),
                BarColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                console=self._console,
            )
            self._bar.start()
            self._id = self._bar.add_task("", total=self._total, completed=start, note="", left="", about="")

    def expect(self, total: int) -> None:
        """Correct the step at which the run ends, where time decides. It is an estimate until then."""
        self._total, self._about = total, "about "
        if self._bar:
            self._bar.update(self._id, total=total, about=self._about)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False)

    def advance(self, step: int) -> None:
        if self._bar:
            self._bar.update(self._id, completed=step)

    def row(self, row: dict[str, float]) -> None:
        shown = {"return": "return", "eval_return": "evaluated", "q": "q", "temperature": "temperature"}
        note = "  ".join(f"{label} {row[name]:.4g}" for name, label in shown.items() if name in row)
        if "eval_success" in row:
            note += f"  success {100 * row['eval_success']:.0f}%"
        step = int(row["step"])
        left = self._left(step, row.get("updates", 0) > 0)
        if self._bar:
            self._bar.update(self._id, completed=step, note=note, left=left)
        soon = step < self._total and time.monotonic() - self._said < PLAIN_INTERVAL
        if "eval_return" not in row and (self._bar or soon):  # evaluations get a line that stays, above the bar too
            return
        self._said = time.monotonic()
        seconds = row.get("seconds", 0.0)
        taken = seconds - self._shown[1]
        new = step - self._shown[0]
        rate = f"{new / taken if taken > 0 else row['steps_per_second']:.0f} steps/s" if new else ""
        self._shown = (step, seconds)
        self.say("  ".join(filter(None, (f"step {step:>9,}/{self._about}{self._total:,}", note, rate, left))))

    def _left(self, step: int, learning: bool) -> str:
        """The time left, at the pace since learning began. Random steps and compiling say nothing about it, so they do
        not count."""
        if step >= self._total:
            return ""
        if not learning:
            return self._warm_up
        if self._pace is None:
            self._pace = (step, time.monotonic())
        first, since = self._pace
        return (
            f"left {clock((time.monotonic() - since) / (step - first) * (self._total - step))}" if step > first else ""
        )

    def close(self) -> None:
        if self._bar:
            self._bar.stop()


def clock(seconds: float) -> str:
    """A duration: 1:05 or 2:00:07."""
    minutes, seconds = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
