"""The tables of the page: tasks, settings that differ, where the numbers come from, wall clock."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flashsac.experiments.comparison import Comparison, Published, all_runs
from flashsac.experiments.curves import AXES, Band
from flashsac.experiments.grouping import ABSENT, differing_settings
from flashsac.experiments.recorded import RecordedRun
from flashsac.system.limits import flag

Table = dict[str, Any]
"""Caption, names of the columns, and rows of cells; a cell is text."""


def table(caption: str, columns: list[str], rows: list[list[str]]) -> Table:
    return {"caption": caption, "columns": columns, "rows": rows}


def task_table(comparison: Comparison, published: Published) -> Table:
    """Return a row for every line: how far it came, and the published value at the same step."""
    columns = ["Task", "Line", "Seeds", "Steps", "Training time", "Last", "Best", "Published at this step"]
    rows = [_task_row(task, name, runs, published.get(task, {})) for task, name, runs in all_runs(comparison)]
    caption = (
        "Every line of every task. Last and best are means over runs. In parentheses: the lowest and the highest run."
    )
    return table(caption, columns, rows)


def settings_table(comparison: Comparison) -> Table:
    """Return the settings that differ between the lines of a task, and their values in each."""
    names = list(dict.fromkeys(name for _, name, _ in all_runs(comparison)))
    rows = []
    for task, lines in comparison.items():
        for setting in differing_settings([run for runs in lines.values() for run in runs]):
            rows.append([task, flag(setting), *(_values(lines.get(name, []), setting) for name in names)])
    return table("Settings that differ between the runs of a task.", ["Task", "Setting", *names], rows)


def origins_tables(comparison: Comparison) -> list[Table]:
    """Return the combinations of versions and machine, each with a letter, and the letters behind every line."""
    letters: dict[tuple[str, str], str] = {}
    rows = []
    for task, name, runs in all_runs(comparison):
        found: dict[str, list[RecordedRun]] = {}
        for run in runs:
            origin = _spelled(run.versions, " "), _spelled(run.machine, ": ")
            found.setdefault(letters.setdefault(origin, _letter(len(letters))), []).append(run)
        for letter, same in found.items():
            seeds = ", ".join(map(str, sorted({run.seed for run in same})))
            rows.append([task, name, letter, seeds, ", ".join(str(run.path) for run in same)])
    origins = [[letter, *origin] for origin, letter in letters.items()]
    return [
        table(
            "Where runs were made: versions of the packages, and the machine.",
            ["Origin", "Versions", "Machine"],
            origins,
        ),
        table("The origin of every line.", ["Task", "Line", "Origin", "Seeds", "Run directories"], rows),
    ]


def _letter(index: int) -> str:
    return chr(ord("A") + index) if index < 26 else f"A{index}"


def wall_clock_table(found: list[tuple[str, str, int, dict[str, Any]]]) -> Table:
    """Return the measurement of every run: task, line, seed and its values."""
    keys = list(dict.fromkeys(key for *_, values in found for key in values))
    rows = [
        [task, name, str(seed), *(_cell(values.get(key, "")) for key in keys)] for task, name, seed, values in found
    ]
    return table(
        "Seconds by the paper's protocol (simulation and learning measured apart), beside those really taken.",
        ["Task", "Line", "Seed", *keys],
        rows,
    )


def short(value: float) -> str:
    """Write a number as people read it: 12,346, 123.5 or 0.0123."""
    if not math.isfinite(value):
        return "not finite"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def _task_row(task: str, name: str, runs: list[RecordedRun], published: dict[str, Band]) -> list[str]:
    curves = [run.curve for run in runs if run.curve]
    steps, seconds = ([run.rows[-1].get(axis, 0.0) for run in runs if run.rows] for axis in AXES)
    last = [float(curve.value[-1]) for curve in curves]
    best = [float(np.nanmax(curve.value)) for curve in curves if not np.isnan(curve.value).all()]
    at = float(np.mean([curve.step[-1] for curve in curves])) if curves else math.inf
    values = {method: line for method, line in sorted(published.items()) if line.x[0] <= at <= line.x[-1]}
    compared = [f"{method} {short(float(np.interp(at, line.x, line.mean)))}" for method, line in values.items()]
    seeds = str(len({run.seed for run in runs}))
    best_mean = short(float(np.mean(best))) if best else ""
    return [task, name, seeds, _range(steps), _duration(seconds), _mean(last), best_mean, "; ".join(compared)]


def _mean(values: list[float]) -> str:
    if not values:
        return ""
    spread = f" ({short(min(values))} to {short(max(values))})" if len(values) > 1 else ""
    return short(float(np.mean(values))) + spread


def _range(values: list[float]) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def _duration(values: list[float]) -> str:
    if not values or not math.isfinite(seconds := float(np.mean(values))):
        return ""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {left} s" if minutes else f"{left} s"


def _values(runs: list[RecordedRun], setting: str) -> str:
    return " or ".join(dict.fromkeys(_cell(run.settings.get(setting, ABSENT)) for run in runs))


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(_cell, value)) if isinstance(value, list) else str(value)


def _spelled(values: dict[str, Any], between: str) -> str:
    return ", ".join(f"{name.replace('_', ' ')}{between}{_cell(value) or 'none'}" for name, value in values.items())
