"""The files of aggregate scores: scores.csv and scores.png."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashsac.experiments.pictures import legend_below, make_plain, picture
from flashsac.experiments.scores import Estimate, GroupScores, Line, Summary
from flashsac.experiments.styles import MATPLOTLIB, Style, style
from flashsac.system.files import write_csv

COLUMNS = ("statistic", "name", "other", "x", "value", "ci_low", "ci_high", "tasks", "seeds")
LINES = {
    "profile": ("score x", "share of runs with a score above x"),
    "iqm_over_steps": ("share of the task's steps", "interquartile mean of scores"),
    "iqm_over_seconds": ("training time (s)", "interquartile mean of scores"),
}
"""Each line of a group with the labels of its axes."""


def write_scores(summary: Summary, out: Path) -> list[Path]:
    """Write the table and the picture; returns both files."""
    return [write_csv(out / "scores.csv", COLUMNS, _rows(summary)), _draw(summary, out / "scores.png")]


def _rows(summary: Summary) -> Iterator[list[Any]]:
    count = len(summary.tasks)
    for group in summary.groups:
        for statistic in ("iqm", "mean", "median", "optimality_gap"):
            yield [statistic, group.name, "", "", *_numbers(getattr(group, statistic)), count, group.seeds]
    seeds = {group.name: group.seeds for group in summary.groups}
    for pair in summary.pairs:
        numbers, fewest = _numbers(pair.probability), min(seeds[pair.name], seeds[pair.other])
        yield ["probability_of_improvement", pair.name, pair.other, "", *numbers, count, fewest]
    for group in summary.groups:
        for statistic in LINES:
            line: Line = getattr(group, statistic)
            for x, estimate in zip(line.x, line.estimates, strict=True):
                yield [statistic, group.name, "", f"{x:.6g}", *_numbers(estimate), count, group.seeds]


def _numbers(estimate: Estimate) -> list[str]:
    numbers = (estimate.value, estimate.low, estimate.high)
    return ["" if number is None else f"{number:.6g}" for number in numbers]


def _draw(summary: Summary, path: Path) -> Path:
    """Draw each group's interquartile mean with its interval, its performance profile, and its scores over time."""
    with picture(path, 2, 2, (11, 8)) as (figure, panels):
        _draw_points(panels[0, 0], summary)
        for panel, (statistic, labels) in zip(panels.flat[1:], LINES.items(), strict=True):
            for i, group in enumerate(summary.groups):
                _draw_line(panel, getattr(group, statistic), group, style(i))
            panel.set_xlabel(labels[0])
            panel.set_ylabel(labels[1])
        for panel in panels.flat:
            make_plain(panel)
        legend_below(figure, panels[0, 1])
        when = "last evaluation" if summary.at is None else f"step {summary.at:,}"
        intervals = any(group.iqm.low is not None for group in summary.groups)
        how = ", 95% stratified bootstrap intervals" if intervals else ""
        figure.suptitle(f"normalised scores over {len(summary.tasks)} tasks, {when}{how}")
    return path


def _draw_points(panel: Any, summary: Summary) -> None:
    for i, group in enumerate(summary.groups):
        colour = style(i).colour
        if group.iqm.low is not None:
            panel.plot([group.iqm.low, group.iqm.high], [i, i], color=colour, linewidth=6, alpha=0.35)
        panel.plot(group.iqm.value, i, color=colour, marker="o")
    panel.set_ylim(len(summary.groups) - 0.5, -0.5)
    panel.set_yticks([])
    panel.set_xlabel("interquartile mean of scores")


def _draw_line(panel: Any, line: Line, group: GroupScores, look: Style) -> None:
    label = f"{group.name}, {group.seeds} seed{'s' if group.seeds > 1 else ''}"
    panel.plot(
        line.x,
        [estimate.value for estimate in line.estimates],
        color=look.colour,
        linestyle=MATPLOTLIB[look.dash],
        label=label,
    )
    low, high = ([getattr(estimate, end) for estimate in line.estimates] for end in ("low", "high"))
    if line.x and None not in low:
        panel.fill_between(line.x, low, high, color=look.colour, alpha=0.2, linewidth=0)
