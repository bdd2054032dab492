"""The figures of the page as plain data: lines with their points. page/figures.js draws them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flashsac.experiments.comparison import published_name
from flashsac.experiments.curves import (
    AXES,
    Band,
    Curve,
    axis_labels,
    band,
    crop_published,
    extent,
    metric_of,
)
from flashsac.experiments.page.kept import Kept, Piece
from flashsac.experiments.recorded import RecordedRun

MOST_POINTS = 500
"""A curve has up to so many points on the page; the CSV files have all of them."""
MOST_POINTS_OF_A_METRIC = 200
LOG_FROM = 100.0
"""A metric gets a logarithmic axis if its values are positive and their largest is so many times the smallest."""
DIAGNOSTICS = "diag/"
"""Columns of diagnostics begin with this; those of single layers have a further slash."""
INTERVAL = "Mean over seeds with 95% bootstrap interval, for three seeds or more. Otherwise each run."
EXTENT = "Mean over runs, from the lowest to the highest of them."
GEOMETRIC = "Geometric mean over runs, from the lowest to the highest of them."

Lines = dict[str, list[RecordedRun]]
"""The runs of every line of a task, by name."""


def curves_figure(task: str, lines: Lines, published: dict[str, Band], kept: Kept) -> dict[str, Any]:
    """Return the evaluation curves of a task, and the published ones."""
    drawn: list[dict[str, Any]] = []
    for name, runs in lines.items():
        drawn.append(kept.get(("evaluated", name, *runs), functools.partial(_evaluated_line, name, runs)))
    ends = [float(run.curve.step[-1]) for runs in lines.values() for run in runs if run.curve]
    theirs, right = crop_published(published, max(ends, default=0.0))
    drawn += [_published_line(method, line) for method, line in theirs.items()]
    end = {"end": {"step": right}} if theirs else {}
    return _figure(task, task, metric_of(task).label, INTERVAL, drawn) | end


def metric_figures(task: str, lines: Lines, kept: Kept) -> dict[str, list[dict[str, Any]]]:
    """Return a figure of every other column of metrics.csv, as diagnostics, those of single layers, and metrics."""
    known = {"step", "seconds", metric_of(task).column}
    columns = dict.fromkeys(name for runs in lines.values() for run in runs for name in run.columns)
    out: dict[str, list[dict[str, Any]]] = {"diagnostics": [], "layers": [], "metrics": []}
    for column in (name for name in columns if name not in known):
        log = _wants_log([run.columns[column] for runs in lines.values() for run in runs if column in run.columns])
        drawn = []
        for name, runs in lines.items():
            make = functools.partial(_metric_line, name, runs, column, log)
            if line := kept.get(("metric", name, column, log, *runs), make):
                drawn.append(line)
        if drawn:
            spread = GEOMETRIC if log else EXTENT
            out[_kind(column)].append(_figure(task, column, column, spread, drawn) | {"log": log})
    return out


def numbers(values: Sequence[float] | np.ndarray) -> list[float | None]:
    """Return numbers for JSON, with six digits; None for those that are not finite."""
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in map(float, values)]


def _kind(column: str) -> str:
    if not column.startswith(DIAGNOSTICS):
        return "metrics"
    return "layers" if "/" in column.removeprefix(DIAGNOSTICS) else "diagnostics"


def _figure(task: str, title: str, label: str, spread: str, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"title": title, "task": task, "y": label, "x": axis_labels(task), "spread": spread, "lines": lines}


def _evaluated_line(name: str, runs: list[RecordedRun]) -> Piece:
    curves = [run.curve for run in runs if run.curve]
    means = {axis: band(curves, axis) for axis in AXES} if curves else {}
    shown = {axis: _points(line, MOST_POINTS) for axis, line in means.items() if line.has_interval and len(line.x)}
    return _line(name, len({run.seed for run in runs}), shown, [_run(curve, MOST_POINTS) for curve in curves])


def _published_line(method: str, line: Band) -> Piece:
    return _line(published_name(method), line.seeds, {"step": _points(line, MOST_POINTS)}, [], published=True)


def _metric_line(name: str, runs: list[RecordedRun], column: str, log: bool) -> Piece | None:
    curves = [run.columns[column] for run in runs if column in run.columns]
    if not curves:
        return None
    if len(curves) == 1:
        return _line(name, 1, {}, [_run(curves[0], MOST_POINTS_OF_A_METRIC)])
    means = {axis: line for axis in AXES if len((line := extent(curves, axis, logarithmic=log)).x)}
    shown = {axis: _points(line, MOST_POINTS_OF_A_METRIC) for axis, line in means.items()}
    # Where the runs have nothing in common there is no mean, and each of them is drawn.
    single = [] if shown else [_run(curve, MOST_POINTS_OF_A_METRIC) for curve in curves]
    return _line(name, len({curve.seed for curve in curves}), shown, single)


def _line(name: str, seeds: int, mean: dict[str, Any], runs: list[dict[str, Any]], **more: Any) -> Piece:
    return Piece(name=name, seeds=seeds, mean=mean, runs=runs, **more)


def _points(line: Band, most: int) -> dict[str, list[float | None]]:
    kept = _kept(len(line.x), most)
    return {name: numbers(getattr(line, name)[kept]) for name in ("x", "mean", "low", "high")}


def _run(curve: Curve, most: int) -> dict[str, Any]:
    kept = _kept(len(curve.step), most)
    return {"seed": curve.seed} | {name: numbers(getattr(curve, name)[kept]) for name in ("step", "seconds", "value")}


def _kept(count: int, most: int) -> np.ndarray:
    """Return the indices of at most so many points, evenly spaced, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _wants_log(curves: list[Curve]) -> bool:
    values = np.concatenate([curve.value for curve in curves])
    values = values[np.isfinite(values)]
    return bool(len(values)) and bool(0 < values.min() < values.max() / LOG_FROM)
