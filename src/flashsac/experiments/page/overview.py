"""What the page begins with: aggregate scores over tasks, where there are some, and the table of tasks."""

from __future__ import annotations

from typing import Any

from flashsac.experiments.comparison import Comparison, Published
from flashsac.experiments.curves import AXES
from flashsac.experiments.page.figures import numbers
from flashsac.experiments.page.tables import Table, short, table, task_table
from flashsac.experiments.scores import Estimate, Line, Summary

SPREAD = "Scores over all tasks and seeds, with 95% stratified bootstrap interval."


def overview(comparison: Comparison, published: Published, scores: Summary | None) -> dict[str, list[dict[str, Any]]]:
    """Return the tables and figures of the overview."""
    tables = [task_table(comparison, published)]
    if scores is None:
        return {"figures": [], "tables": tables}
    return {"figures": _figures(scores), "tables": [*_tables(scores), *tables]}


def _figures(scores: Summary) -> list[dict[str, Any]]:
    over = {group.name: {"step": group.iqm_over_steps, "seconds": group.iqm_over_seconds} for group in scores.groups}
    labels = AXES | {"step": "share of the task's steps"}
    profiles = {group.name: dict.fromkeys(AXES, group.profile) for group in scores.groups}
    tau = dict.fromkeys(AXES, "score")
    return [
        _figure(scores, "Aggregate score", "interquartile mean of normalised scores", labels, over),
        _figure(scores, "Performance profile", "share of runs above the score", tau, profiles),
    ]


def _figure(
    scores: Summary, title: str, y: str, x: dict[str, str], lines: dict[str, dict[str, Line]]
) -> dict[str, Any]:
    seeds = {group.name: group.seeds for group in scores.groups}
    drawn = [
        {
            "name": name,
            "seeds": seeds[name],
            "mean": {axis: _points(line) for axis, line in of_axis.items() if line.x},
            "runs": [],
        }
        for name, of_axis in lines.items()
    ]
    return {"title": title, "task": f"{len(scores.tasks)} tasks", "y": y, "x": x, "spread": SPREAD, "lines": drawn}


def _points(line: Line) -> dict[str, list[float | None]]:
    def ends(name: str) -> list[float | None]:
        values = [getattr(estimate, name) for estimate in line.estimates]
        return [None if value is None else numbers([value])[0] for value in values]

    return {"x": numbers(line.x), "mean": ends("value"), "low": ends("low"), "high": ends("high")}


def _tables(scores: Summary) -> list[Table]:
    counted = f"the last evaluation of each run on {', '.join(scores.tasks)}"
    if scores.at is not None:
        counted = f"step {scores.at:,} on {', '.join(scores.tasks)}"
    statistics = ("iqm", "mean", "median", "optimality_gap")
    rows = [
        [group.name, str(group.seeds), *(_estimate(getattr(group, statistic)) for statistic in statistics)]
        for group in scores.groups
    ]
    columns = ["Line", "Seeds", "Interquartile mean", "Mean", "Median", "Optimality gap"]
    tables = [table(f"Normalised scores: {counted}. In parentheses: 95% interval.", columns, rows)]
    if scores.pairs:
        pairs = [[pair.name, pair.other, _estimate(pair.probability)] for pair in scores.pairs]
        tables.append(table("Probability that a run of one line beats a run of another.", ["Line", "Other", ""], pairs))
    return tables


def _estimate(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return short(estimate.value)
    return f"{short(estimate.value)} ({short(estimate.low)} to {short(estimate.high)})"
