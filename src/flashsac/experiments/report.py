"""Curves over seeds: evaluated return or success against steps and against time, as PNG, CSV and one HTML page.
Scores over tasks.

Runs of different settings never share a curve, unless the user gave them one name. Means have 95% bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError, MissingExtra
from flashsac.experiments.comparison import Comparison, Published, Say, compare, curves_of, styles_of
from flashsac.experiments.curves import AXES, Curve, band
from flashsac.experiments.drawing import draw
from flashsac.experiments.page.write import check_plotly, write_page
from flashsac.experiments.published import PublishedCurves
from flashsac.experiments.recorded import RecordedRun, find_runs, read_run
from flashsac.experiments.score_files import write_scores
from flashsac.experiments.scores import summary
from flashsac.experiments.wall_clock import write_wall_clock
from flashsac.system.files import write_csv

COLUMNS = ("task", "name", "kind", "axis", "x", "value", "ci_low", "ci_high", "seed", "seeds")
"""The columns of the table of a task."""


def report(
    groups: dict[str, list[Path]],
    out: Path,
    published: Path | None = None,
    say: Say = lambda line: None,
    at: int | None = None,
    *,
    embed_videos: bool = False,
) -> list[Path]:
    """Draw every task found in the runs, each group of runs in its own colour; returns the files written.

    Scores over several tasks count at the step `at`, or at each run's last evaluation."""
    theirs = PublishedCurves(published) if published else None
    notes: list[str] = []

    def note(line: str) -> None:
        notes.append(line)
        say(line)

    comparison = compare(_evaluated(groups, note), note)
    if not comparison:
        raise FlashSACError("none of the runs has been evaluated yet; run them with --eval.every above 0.")
    others = theirs.beside(comparison) if theirs else {}
    out.mkdir(parents=True, exist_ok=True)
    written = write_figures(comparison, others, out, note)
    scores = summary(curves_of(comparison), at, note)
    written += write_scores(scores, out) if scores else []
    written += write_wall_clock(comparison, out, note)
    try:
        check_plotly()
    except MissingExtra as error:
        say(f"note: {error}")
        return written
    return [*written, *write_page(comparison, others, out, scores, notes=notes, embed_videos=embed_videos)]


def write_figures(comparison: Comparison, published: Published, out: Path, say: Say) -> list[Path]:
    """Write a picture and a table of every task."""
    styles = styles_of(comparison, published)
    written = []
    for task, named in curves_of(comparison).items():
        for name, curves in named.items():
            for axis, label in AXES.items():
                if not len(band(curves, axis).x):
                    say(f"no mean of {name} on {task} over {label}: one run's evaluations end before another's begin")
        stem = task.replace(":", "-").replace("/", "-")
        picture = draw(out / f"{stem}.png", task, named, published.get(task, {}), styles)
        written += [write_csv(out / f"{stem}.csv", COLUMNS, _rows(task, named)), picture]
    return written


def _evaluated(groups: dict[str, list[Path]], say: Say) -> dict[str, list[RecordedRun]]:
    """Read the runs of every group; those that have not been evaluated are named and left out."""
    out = {}
    for name, paths in groups.items():
        runs = [read_run(path) for path in find_runs(paths)]
        for run in runs:
            if run.curve is None:
                say(f"left out: {run.path}, which has not been evaluated")
        out[name] = [run for run in runs if run.curve is not None]
    return out


def _rows(task: str, named: dict[str, list[Curve]]) -> Iterator[list[Any]]:
    """Yield means and single runs; ci_low and ci_high are empty where there are too few seeds."""
    for name, curves in named.items():
        for axis in AXES:
            line = band(curves, axis)
            for *point, low, high in zip(line.x, line.mean, line.low, line.high, strict=True):
                interval = (f"{low:.6g}", f"{high:.6g}") if line.has_interval else ("", "")
                numbers = (*(f"{number:.6g}" for number in point), *interval)
                yield [task, name, "mean", axis, *numbers, "", line.seeds]
        for curve in curves:
            for axis in AXES:
                for x, value in zip(getattr(curve, axis), curve.value, strict=True):
                    yield [task, name, "seed", axis, f"{x:.6g}", f"{value:.6g}", "", "", curve.seed, ""]
