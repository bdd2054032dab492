"""What a run has left on disk: its settings, every row of its metrics, and the curve of its evaluations."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError
from flashsac.experiments.curves import Curve, column_of, curve_of
from flashsac.experiments.folders import place_in_sweep
from flashsac.runs import layout
from flashsac.runs.directory import read_record, settings_of
from flashsac.runs.metrics_file import Row, read_metrics

WITHOUT_RUNS = {layout.CHECKPOINTS, layout.REPLAY, layout.RING, layout.RANKS, layout.TENSORBOARD, layout.VIDEOS}
"""Folders of a run directory that are not searched for further runs."""


@dataclasses.dataclass(frozen=True, eq=False)
class RecordedRun:
    """A run as its files show it. Two readings of it are two objects."""

    path: Path
    task: str
    seed: int
    curve: Curve | None
    """None before the first evaluation."""
    settings: dict[str, Any]
    """All its settings, by names such as agent.batch_size."""
    rows: list[Row]
    """The rows of metrics.csv."""
    versions: dict[str, Any]
    machine: dict[str, Any]

    @functools.cached_property
    def columns(self) -> dict[str, Curve]:
        """The columns of metrics.csv that have values, over steps and time."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        found = {name: column_of(self.seed, self.rows, name) for name in names}
        return {name: curve for name, curve in found.items() if curve is not None}

    @functools.cached_property
    def variant(self) -> str | None:
        """The variant of a sweep that the run is of; None for a run that lies in no sweep's folders."""
        place = place_in_sweep(self.path, self.task, self.seed)
        return place[1] if place else None

    @functools.cached_property
    def sweep(self) -> Path | None:
        """The directory of the sweep that the run lies in, if it lies in one."""
        place = place_in_sweep(self.path, self.task, self.seed)
        return place[0] if place else None


def run_directories(path: Path) -> Iterator[Path]:
    """Yield the run directories that a path is or contains. Folders that disappear meanwhile are passed over."""
    for folder, folders, files in os.walk(path):
        is_run = {layout.CONFIG, layout.METRICS} <= {*files}
        if is_run:
            yield Path(folder)
        folders[:] = sorted(name for name in folders if not (is_run and name in WITHOUT_RUNS))


def find_runs(paths: list[Path]) -> list[Path]:
    """Return the run directories among the paths and below them. A path without any is passed over, as in `runs/*`."""
    if missing := [str(path) for path in paths if not path.exists()]:
        raise FlashSACError(f"{', '.join(missing)}: no such file or directory.")
    runs = sorted({run for path in paths for run in run_directories(path)})
    if not runs:
        raise FlashSACError(
            f"no runs in {', '.join(map(str, paths))}: a run directory holds config.json and metrics.csv."
        )
    return runs


def read_run(path: Path) -> RecordedRun:
    """Read a run, also one that another version has made."""
    record = read_record(path)
    task, seed = record["task"], record["config"]["seed"]
    rows = read_metrics(path / layout.METRICS)
    return RecordedRun(
        path,
        task,
        seed,
        curve_of(task, seed, rows),
        flatten(settings_of(record)),
        rows,
        _dict(record.get("versions")),
        _dict(record.get("machine")),
    )


def flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by one name each: {"agent": {"atoms": 5}} gives {"agent.atoms": 5}."""
    out: dict[str, Any] = {}
    for name, value in settings.items():
        out |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return out


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
