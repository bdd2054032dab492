"""Everything that the page shows, as one value for JSON. Texts in it are shown as text, whatever they contain."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flashsac.experiments.comparison import Comparison, Published, all_runs, styles_of
from flashsac.experiments.curves import Band
from flashsac.experiments.page import extras
from flashsac.experiments.page.ablation import panels
from flashsac.experiments.page.figures import Lines, curves_figure, metric_figures
from flashsac.experiments.page.kept import Kept
from flashsac.experiments.page.overview import overview
from flashsac.experiments.page.tables import origins_tables, settings_table, wall_clock_table
from flashsac.experiments.scores import Summary
from flashsac.runs.provenance import version

FileOf = Callable[[str, str, int, Path], str]
"""Task, name, seed and path of a video give the address that the page uses for it."""


def page_data(
    comparison: Comparison,
    published: Published,
    notes: list[str],
    file_of: FileOf,
    scores: Summary | None = None,
    kept: Kept | None = None,
) -> dict[str, Any]:
    """Return the data of the page. What `kept` has of an earlier reading is not made anew."""
    kept = kept or Kept()
    found = [(task, name, run) for task, name, runs in all_runs(comparison) for run in runs]
    looks = {name: dataclasses.asdict(look) for name, look in styles_of(comparison, published).items()}
    clocks = [(task, name, run.seed, extras.wall_clock(run, kept)) for task, name, run in found]
    densities = [(task, name, run.seed, extras.coverage(run.path, kept)) for task, name, run in found]
    films = [(task, name, run.seed, extras.newest_video(run.path)) for task, name, run in found]
    return {
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "version": version("flashsac") or "",
        "runs": len(found),
        "notes": notes,
        "styles": looks,
        "overview": overview(comparison, published, scores),
        "tasks": [_data_of_task(task, lines, published.get(task, {}), kept) for task, lines in comparison.items()],
        "coverage": [_of_run(task, name, seed) | {"pairs": pairs} for task, name, seed, pairs in densities if pairs],
        "wall_clock": wall_clock_table([clock for clock in clocks if clock[-1]]),
        "videos": [
            _of_run(task, name, seed) | {"src": file_of(task, name, seed, film)}
            for task, name, seed, film in films
            if film
        ],
        "settings": settings_table(comparison),
        "origins": origins_tables(comparison),
    }


def _data_of_task(task: str, lines: Lines, published: dict[str, Band], kept: Kept) -> dict[str, Any]:
    """Return the figures of one task, and the panels of its ablations."""
    return {
        "task": task,
        "figure": curves_figure(task, lines, published, kept),
        "panels": panels(lines, published),
    } | metric_figures(task, lines, kept)


def _of_run(task: str, name: str, seed: int) -> dict[str, Any]:
    return {"task": task, "name": name, "seed": seed}
