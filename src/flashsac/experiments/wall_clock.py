"""The time of every run by the paper's protocol, beside the time that it really took: wall_clock.csv of a report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flashsac.errors import FlashSACError
from flashsac.experiments.comparison import Comparison, all_runs
from flashsac.experiments.recorded import RecordedRun
from flashsac.runs.wall_clock import WallClock, read_wall_clock
from flashsac.system.files import write_csv

NUMBERS = ("steps", "updates", "interaction_seconds", "algorithm_seconds", "protocol_seconds", "real_seconds")


def run_wall_clock(run: RecordedRun) -> WallClock | None:
    """Return a run's measurement, for the run as far as it has come since; None if it was not measured."""
    measured = read_wall_clock(run.path)
    if measured is None:
        return None
    rows = [row for row in run.rows if {"step", "updates", "seconds"} <= row.keys()]
    return measured.after(rows[-1]) if rows else measured


def write_wall_clock(comparison: Comparison, out: Path, say: Callable[[str], None]) -> list[Path]:
    """Write one row for each run that was measured; returns the file, if there is one."""
    rows = []
    for task, name, runs in all_runs(comparison):
        for run in runs:
            try:
                measured = run_wall_clock(run)
            except FlashSACError as error:
                say(f"warning: {error}")
                continue
            if measured is not None:
                values = [f"{getattr(measured, number):.6g}" for number in NUMBERS]
                rows.append([task, name, run.seed, *values, measured.precision, measured.machine])
    if not rows:
        return []
    columns = ("task", "name", "seed", *NUMBERS, "precision", "machine")
    return [write_csv(out / "wall_clock.csv", columns, rows)]
