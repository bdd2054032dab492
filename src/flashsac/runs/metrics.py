"""What a run writes down: metrics.csv, TensorBoard, optionally W&B.

The columns are the METRICS that the parts of a run declare; training/build.py collects them.
"""

from __future__ import annotations

import contextlib
import csv
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError, MissingExtra
from flashsac.runs import layout
from flashsac.runs.metrics_file import read_metrics as read_metrics
from flashsac.runs.metrics_file import read_metrics_file
from flashsac.system.files import replacing, write_atomic

DAMAGED = "metrics-damaged.csv"
"""Where damaged lines of metrics.csv are kept."""
TIMINGS = ("seconds", "steps_per_second")
"""Columns that differ from run to run even with the same seed."""


class MetricsLog:
    """Appends rows to metrics.csv and the same numbers to TensorBoard and W&B.

    `columns` are those of metrics.csv; a cell without a value stays empty. Resuming drops the rows after `resume_step`, and the
    columns that are not among `columns`. A row that cannot be written costs a warning through `say`, never the run.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        columns: Sequence[str],
        resume_step: int | None = None,
        wandb_project: str | None = None,
        config: Any = None,
        say: Callable[[str], None] = print,
    ):
        self._columns, self._say = tuple(columns), say
        self._path = run_dir / layout.METRICS
        kept = [] if resume_step is None else [row for row in self._whole_rows() if row["step"] <= resume_step]
        with replacing(self._path) as temporary, temporary.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self._columns)
            writer.writerows(map(self._cells, kept))
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

    def _whole_rows(self) -> list[dict[str, float]]:
        """The rows of the run so far. Those that are damaged are set aside, because the file is written anew."""
        rows, damaged = read_metrics_file(self._path, self._columns)
        if damaged:
            with self._path.with_name(DAMAGED).open("ab") as file:
                file.write(b"".join(line + b"\n" for line in damaged))
            self._say(
                f"warning: {len(damaged)} damaged lines of metrics.csv were moved to {DAMAGED}; the others are whole"
            )
        return rows

    def _cells(self, row: dict[str, float]) -> list[str]:
        return [_text(row.get(column)) for column in self._columns]

    def write(self, row: dict[str, float]) -> None:
        """Append a row; raises on a metric that is not among the columns."""
        if undeclared := [name for name in row if name not in self._columns]:
            raise FlashSACError(
                f"metric '{undeclared[0]}' is not declared: add it to METRICS of the part that makes it."
            )
        try:
            self._writer.writerow(self._cells(row))
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


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _start_wandb(project: str, run_dir: Path, config: Any) -> Any:
    try:
        import wandb
    except ImportError as error:
        raise MissingExtra('logging to W&B needs its package: pip install "flashsac[wandb]"') from error
    # One id for the run's whole life, or every resume would begin another one there.
    known = run_dir / "wandb_id"
    if not known.exists():
        write_atomic(known, secrets.token_hex(8))
    return wandb.init(
        project=project, name=run_dir.name, dir=str(run_dir), config=config, id=known.read_text(), resume="allow"
    )
