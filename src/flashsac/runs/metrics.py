"""What a run writes down: metrics.csv, TensorBoard, optionally W&B and Trackio.

The columns are the METRICS that the parts of a run declare; training/build.py collects them.
"""

from __future__ import annotations

import contextlib
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError, MissingExtra
from flashsac.runs import layout
from flashsac.runs.metrics_file import read_metrics as read_metrics
from flashsac.runs.metrics_file import read_metrics_file
from flashsac.runs.tensorboard import TensorBoard
from flashsac.system.files import append_line, replacing, sync, write_atomic

DAMAGED = "metrics-damaged.csv"
"""The file that keeps damaged lines of metrics.csv."""
TIMINGS = ("seconds", "steps_per_second")
"""Columns that differ from run to run even with the same seed."""


class MetricsLog:
    """Appends rows to metrics.csv and the same numbers to TensorBoard, W&B and Trackio.

    `columns` are those of metrics.csv; a cell without a value stays empty. Resuming drops the rows after `resume_step`.
    Other columns that the file has are kept, with their values. Rows that cannot be written are kept in `unwritten`,
    and written once they can be; that costs a warning through `say`, never the run.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        columns: Sequence[str],
        resume_step: int | None = None,
        unwritten: Sequence[dict[str, float]] = (),
        wandb_project: str | None = None,
        trackio_project: str | None = None,
        config: Any = None,
        say: Callable[[str], None] = print,
    ):
        self._columns, self._say = tuple(columns), say
        self._path = run_dir / layout.METRICS
        kept = [] if resume_step is None else [row for row in self._whole_rows() if row["step"] <= resume_step]
        known = {row["step"] for row in kept}
        kept += [row for row in unwritten if row["step"] not in known]  # kept by the checkpoint: there was no room
        # What an environment or a hook reported before is kept, also if nobody declares it any more.
        recorded = dict.fromkeys(name for row in kept for name in row)
        self._columns += tuple(name for name in recorded if name not in self._columns)
        with replacing(self._path) as temporary, temporary.open("w", newline="") as file:
            file.writelines(f"{line}\n" for line in (self._header(), *map(self._line, kept)))
        self.unwritten: deque[dict[str, float]] = deque()
        """Rows that metrics.csv still lacks, oldest first."""
        self._failing: set[str] = set()
        """Who could not be written the last time."""
        self._tensorboard = TensorBoard(run_dir / layout.TENSORBOARD, None if resume_step is None else resume_step + 1)
        self._services: dict[str, Any] = {}
        """W&B and Trackio, where they are on."""
        if wandb_project:
            self._start("W&B", lambda: _start_wandb(wandb_project, run_dir, config))
        if trackio_project:
            self._start("Trackio", lambda: _start_trackio(trackio_project, run_dir, config))

    def _header(self) -> str:
        return ",".join(self._columns)

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

    def _line(self, row: dict[str, float]) -> str:
        return ",".join(_text(row.get(column)) for column in self._columns)

    def write(self, row: dict[str, float]) -> None:
        """Append a row; raises on a metric that is not among the columns."""
        if undeclared := [name for name in row if name not in self._columns]:
            raise FlashSACError(
                f"metric '{undeclared[0]}' is not declared: add it to METRICS of the part that makes it."
            )
        self.unwritten.append(row)
        self._tensorboard.keep(row)
        self.flush()
        numbers = {name: value for name, value in row.items() if name != "step"}
        for name, service in list(self._services.items()):
            try:
                service.log(numbers, step=int(row["step"]))
            except Exception as error:  # a service that is down
                self._leave_out(name, error)

    def flush(self) -> None:
        """Write the rows that could not be written before."""
        if self._attempt("metrics.csv", self._append_unwritten):  # else there is no room for a copy either
            self._attempt("TensorBoard", self._tensorboard.flush)

    def _append_unwritten(self) -> None:
        while self.unwritten:
            if not (self._path.exists() and self._path.stat().st_size):  # somebody deleted it
                append_line(self._path, self._header())
            append_line(self._path, self._line(self.unwritten[0]))
            self.unwritten.popleft()

    def _attempt(self, name: str, write: Callable[[], None]) -> bool:
        """True if it worked. What fails is said once, and what works again too."""
        try:
            write()
        except OSError as error:
            if name not in self._failing:
                self._say(
                    f"warning: {name} could not be written ({error.strerror or error}). Its rows are kept in memory and written once "
                    "they can be; training goes on"
                )
            self._failing.add(name)
            return False
        if name in self._failing:
            self._say(f"{name} can be written again, and has the rows that were kept in memory")
        self._failing.discard(name)
        return True

    def sync(self) -> None:
        """Wait until the rows are on the disk, as far as they can be written."""
        self.flush()
        with contextlib.suppress(OSError):
            sync(self._path)

    def _start(self, name: str, start: Callable[[], Any]) -> None:
        try:
            self._services[name] = start()
        except MissingExtra:
            raise
        except Exception as error:  # no network, no account, no room
            self._leave_out(name, error)

    def _leave_out(self, name: str, error: Exception) -> None:
        self._services.pop(name, None)
        self._say(f"warning: nothing more is logged to {name} ({error}); training goes on, metrics.csv has it all")

    def close(self) -> None:
        """Write what can be written, and end."""
        self.flush()
        for service in self._services.values():
            with contextlib.suppress(Exception):  # a service that is down must not hide the error that ended the run
                service.finish()


def _text(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def _start_wandb(project: str, run_dir: Path, config: Any) -> Any:
    try:
        import wandb
    except ImportError as error:
        raise MissingExtra('logging to W&B needs its package: pip install "flashsac[wandb]"') from error
    name, run_id = run_dir.name, _run_id(run_dir, "wandb_id")
    return wandb.init(project=project, name=name, dir=str(run_dir), config=config, id=run_id, resume="allow")


def _start_trackio(project: str, run_dir: Path, config: Any) -> Any:
    try:
        import trackio
    except ImportError as error:
        raise MissingExtra('logging to Trackio needs its package: pip install "flashsac[trackio]"') from error
    name = f"{run_dir.name}-{_run_id(run_dir, 'trackio_id')[:6]}"
    return trackio.init(
        project=project, name=name, config=config, resume="allow", auto_log_cpu=False, auto_log_gpu=False
    )


def _run_id(run_dir: Path, file: str) -> str:
    """One id for the run's whole life, or every resume would begin another one there."""
    known = run_dir / file
    if not known.exists():
        write_atomic(known, secrets.token_hex(8))
    return known.read_text()
