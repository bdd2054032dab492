"""What a run writes down: metrics.csv, TensorBoard, optionally W&B."""

from __future__ import annotations

import contextlib
import csv
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

COLUMNS = (
    "step updates episodes return length eval_return eval_length eval_success critic_loss actor_loss q reward entropy "
    "temperature action_std reward_scale learning_rate invalid seconds steps_per_second velocity_loss next_obs_loss"
).split()
"""Of metrics.csv; a cell is empty where there is nothing to say: the last two are a context estimator's."""
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
