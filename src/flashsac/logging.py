"""What a run writes down and shows: metrics.csv, TensorBoard, optionally W&B, and progress on the terminal."""

from __future__ import annotations

import contextlib
import csv
import math
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

COLUMNS = (
    "step updates episodes return length eval_return eval_length eval_success critic_loss actor_loss q reward entropy "
    "temperature action_std reward_scale learning_rate invalid seconds steps_per_second velocity_loss next_obs_loss"
).split()
"""Of metrics.csv; a cell is empty where there is nothing to say: the last two are a context estimator's."""
PLAIN_INTERVAL = 5.0
"""Seconds between plain progress lines; evaluations are always shown."""
TIMINGS = ("seconds", "steps_per_second")
"""Columns that differ from run to run even with the same seed."""


class MetricsLog:
    """Appends rows to metrics.csv and the same numbers to TensorBoard and W&B. Resuming drops what came after `resume_step`.

    What cannot be written is said by `say`, and ends nothing.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        resume_step: int | None = None,
        wandb_project: str | None = None,
        config: Any = None,
        say: Callable[[str], None] = print,
    ):
        self._say = say
        self._path = run_dir / "metrics.csv"
        kept = [] if resume_step is None else [row for row in read_metrics(self._path) if row["step"] <= resume_step]
        temporary = self._path.with_suffix(".writing")
        with temporary.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows([_text(row.get(column)) for column in COLUMNS] for row in kept)
        temporary.replace(self._path)
        self._file = self._path.open("a", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")

        from torch.utils.tensorboard import SummaryWriter

        purge = None if resume_step is None else resume_step + 1
        self._tensorboard = SummaryWriter(str(run_dir / "tensorboard"), purge_step=purge)
        self._ends: list[Callable[[], Any]] = [self._file.close, self._tensorboard.close]
        self._copies: dict[str, Callable[[dict[str, float]], Any]] = {"TensorBoard": self._to_tensorboard}
        """Who gets the same numbers, and how. One that fails is left out from then on."""
        if wandb_project:
            wandb = _start_wandb(wandb_project, run_dir, config)
            self._copies["W&B"] = lambda row: wandb.log(row, step=int(row["step"]))
            self._ends.append(wandb.finish)

    def write(self, row: dict[str, float]) -> None:
        try:
            self._writer.writerow([_text(row.get(column)) for column in COLUMNS])
            self._file.flush()
        except OSError as error:  # tried again with the next row: there may be room by then
            self._say(f"warning: a row of metrics could not be written ({error.strerror}); training goes on")
        for name, send in list(self._copies.items()):
            try:
                send(row)
            except Exception as error:  # a writer's dead thread, a service that is down
                del self._copies[name]
                self._say(
                    f"warning: nothing more is logged to {name} ({error}); training goes on, metrics.csv has it all"
                )

    def _to_tensorboard(self, row: dict[str, float]) -> None:
        for name, value in row.items():
            if name != "step" and value is not None:
                group = "eval" if name.startswith("eval_") else "train"
                self._tensorboard.add_scalar(f"{group}/{name}", value, int(row["step"]))

    def close(self) -> None:
        for end in self._ends:
            with contextlib.suppress(Exception):  # a full disk must not hide the error that ended the run
                end()


def read_metrics(path: Path) -> list[dict[str, float]]:
    """Rows of a metrics.csv; empty cells are left out, and so is a last line that was cut off by a crash."""
    if not path.exists():
        return []
    rows = []
    for row in csv.DictReader(path.read_text().splitlines()):
        if None in row.values():
            continue
        try:
            rows.append({key: float(value) for key, value in row.items() if value})
        except ValueError:
            continue
    return rows


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _start_wandb(project: str, run_dir: Path, config: Any) -> Any:
    try:
        import wandb
    except ImportError as error:
        from flashsac.errors import MissingExtra

        raise MissingExtra('logging to W&B needs its package: pip install "flashsac[wandb]"') from error
    # One id for the run's whole life, or every resume would begin another one there.
    known = run_dir / "wandb_id"
    if not known.exists():
        known.write_text(secrets.token_hex(8))
    return wandb.init(
        project=project, name=run_dir.name, dir=str(run_dir), config=config, id=known.read_text(), resume="allow"
    )


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


class Progress:
    """A live bar with the time left on a terminal, plain lines elsewhere. Everything the user sees while training goes here."""

    def __init__(self, total: int, quiet: bool = False):
        from rich.console import Console

        stdout: Any = _Stdout()
        self._console = Console(file=stdout, highlight=False, quiet=quiet, soft_wrap=True)
        self._total, self._start, self._began, self._quiet = total, 0, time.monotonic(), quiet
        self._said, self._learning = 0.0, False
        self._bar: Any = None

    def begin(self, start: int) -> None:
        """Training starts now, from this step."""
        self._start, self._began = start, time.monotonic()
        if self._console.is_terminal and not self._quiet:
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.completed:,}/{task.total:,} steps"),
                BarColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._bar.start()
            self._id = self._bar.add_task("", total=self._total, completed=start, note="")

    def learning(self, step: int) -> None:
        """Random steps and compiling are over, the first time this is called: what they took says nothing about the rest."""
        if not self._learning:
            self._start, self._began, self._learning = step, time.monotonic(), True

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
        if self._bar:
            self._bar.update(self._id, completed=int(row["step"]), note=note)
            return
        last = row["step"] >= self._total
        if not last and "eval_return" not in row and time.monotonic() - self._said < PLAIN_INTERVAL:
            return
        self._said = time.monotonic()
        done = max(1, int(row["step"]) - self._start)
        left = (time.monotonic() - self._began) / done * max(0, self._total - int(row["step"]))
        self.say(
            f"step {int(row['step']):>9,}/{self._total:,}  {note}  {row['steps_per_second']:.0f} steps/s  left {_clock(left)}"
        )

    def close(self) -> None:
        if self._bar:
            self._bar.stop()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
