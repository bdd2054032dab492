"""Learning curves: read them from runs, and average them over seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from flashsac.experiments.aggregate import BOOTSTRAPS
from flashsac.runs.directory import read_task_and_seed
from flashsac.runs.metrics_file import Row, read_metrics
from flashsac.sims.catalog import suite_of, tasks

FEWEST_SEEDS = 3
"""A 95% interval over fewer seeds says nothing, so none is shown."""
AXES = {"step": "environment steps", "seconds": "training time (s)"}


@dataclasses.dataclass(frozen=True)
class Metric:
    """The number that a task is judged by."""

    column: str
    """Its column in metrics.csv."""
    published: str
    """Its name in a table of published curves."""
    factor: float
    label: str


METRICS = {
    "return": Metric("eval_return", "avg_return", 1.0, "return of the evaluated policy"),
    "success": Metric("eval_success", "avg_success", 100.0, "success of the evaluated policy (%)"),
}


def metric_of(task: str) -> Metric:
    """Return the paper's metric of a task. A task that is not in the paper is judged by its return."""
    known = tasks().get(task)
    return METRICS[known.metric if known else "return"]


def axis_labels(task: str) -> dict[str, str]:
    """Return what the axes of a task's figures are called: from images, a step may do an action several times."""
    suite = suite_of(task)
    if suite is None or suite.action_repeat == 1:
        return AXES
    return AXES | {"step": f"transitions (every action is done {suite.action_repeat} times)"}


@dataclasses.dataclass(frozen=True)
class Curve:
    """One run's evaluations."""

    seed: int
    step: np.ndarray
    seconds: np.ndarray
    value: np.ndarray


@dataclasses.dataclass(frozen=True)
class Band:
    """A mean over seeds with its interval."""

    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: int

    @property
    def has_interval(self) -> bool:
        return self.seeds >= FEWEST_SEEDS


def read_curve(run: Path) -> Curve | None:
    """Read the evaluations of a run; None if it has none."""
    return curve_of(*read_task_and_seed(run), read_metrics(run / "metrics.csv"))


def curve_of(task: str, seed: int, rows: Sequence[Row]) -> Curve | None:
    """Return the evaluations in the rows of metrics.csv; None if there are none."""
    metric = metric_of(task)
    curve = column_of(seed, rows, metric.column)
    return None if curve is None else dataclasses.replace(curve, value=metric.factor * curve.value)


def column_of(seed: int, rows: Sequence[Row], column: str) -> Curve | None:
    """Return one column of metrics.csv over steps and time; None if it is empty."""
    names = ("step", "seconds", column)
    found = [row for row in rows if all(name in row for name in names)]
    if not found:
        return None
    step, seconds, value = (np.array([row[name] for row in found]) for name in names)
    return Curve(seed, step, seconds, value)


def band(curves: list[Curve], axis: str, points: int = 50) -> Band:
    """Return mean and 95% bootstrap interval over seeds, on a grid that every run covers.

    The band is empty where the runs have nothing in common."""
    grid, values = _aligned(curves, axis, points)
    picks = np.random.default_rng(0).integers(len(curves), size=(BOOTSTRAPS, len(curves)))
    low, high = np.percentile(values[picks].mean(1), [2.5, 97.5], axis=0)
    return Band(grid, values.mean(0), low, high, _seeds(curves))


def extent(curves: list[Curve], axis: str, points: int = 100, *, logarithmic: bool = False) -> Band:
    """Return the mean over runs, and the lowest and highest of them, on the same kind of grid as `band`.

    `logarithmic` averages the logarithms of positive values, so that one outlier does not decide. Between the points of
    a run it is straight on a logarithmic axis."""
    if logarithmic:
        with np.errstate(all="ignore"):  # what is not finite has no logarithm, and stays so
            logs = [dataclasses.replace(curve, value=np.log(curve.value)) for curve in curves]
            line = extent(logs, axis, points)
            return dataclasses.replace(line, mean=np.exp(line.mean), low=np.exp(line.low), high=np.exp(line.high))
    grid, values = _aligned(curves, axis, points)
    return Band(grid, values.mean(0), values.min(0), values.max(0), _seeds(curves))


def crop_published(lines: dict[str, Band], end: float) -> tuple[dict[str, Band], float]:
    """Return published curves as far as our runs, or to their first points after the beginning; and where to end the
    axis. Curves of a single point are left out."""
    lines = {method: line for method, line in sorted(lines.items()) if len(line.x) > 1}
    right = 1.05 * max(end, min((line.x[1] for line in lines.values()), default=end))
    return {method: _until(line, max(end, line.x[1])) for method, line in lines.items()}, right


def _until(line: Band, end: float) -> Band:
    inside = line.x <= end
    return dataclasses.replace(line, **{name: getattr(line, name)[inside] for name in ("x", "mean", "low", "high")})


def _aligned(curves: list[Curve], axis: str, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a grid, (points,), and each curve's values on it, (curves, points)."""
    xs = [getattr(curve, axis) for curve in curves]
    if all(np.array_equal(x, xs[0]) for x in xs):
        grid = xs[0]
    else:
        start, end = max(x[0] for x in xs), min(x[-1] for x in xs)
        grid = np.linspace(start, end, points if start <= end else 0)
    return grid, np.stack([np.interp(grid, x, curve.value) for x, curve in zip(xs, curves, strict=True)])


def _seeds(curves: list[Curve]) -> int:
    return len({curve.seed for curve in curves})
