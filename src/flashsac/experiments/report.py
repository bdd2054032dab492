"""Curves over seeds, one way: evaluated return or success against steps and against time, 95% bootstrap intervals, PNG and CSV."""

from __future__ import annotations

import csv
import dataclasses
import glob
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flashsac.errors import FlashSACError
from flashsac.runs.directory import read_task_and_seed
from flashsac.runs.metrics import read_metrics
from flashsac.sims.catalog import suite_of, tasks
from flashsac.system.files import replacing

BOOTSTRAPS = 2000
LABEL = "flashsac"
"""What runs are called that were given no name."""
AXES = {"step": "environment steps", "seconds": "training time (s)"}


@dataclasses.dataclass(frozen=True)
class Metric:
    """What a task is judged by."""

    column: str
    """In metrics.csv."""
    published: str
    """In a table of published curves."""
    factor: float
    label: str


METRICS = {
    "return": Metric("eval_return", "avg_return", 1.0, "return of the evaluated policy"),
    "success": Metric("eval_success", "avg_success", 100.0, "success of the evaluated policy (%)"),
}


def metric_of(task: str) -> Metric:
    """As in the paper; a task that is not in it is judged by its return."""
    known = tasks().get(task)
    return METRICS[known.metric if known else "return"]


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


def find_runs(paths: list[Path]) -> list[Path]:
    """Run directories among the paths and below them."""
    runs = sorted(
        {file.parent for path in paths for file in path.rglob("config.json") if (file.parent / "metrics.csv").exists()}
    )
    if not runs:
        raise FlashSACError(
            f"no runs in {', '.join(map(str, paths))}: a run directory holds config.json and metrics.csv."
        )
    return runs


def read_curve(run: Path) -> Curve | None:
    task, seed = read_task_and_seed(run)
    metric = metric_of(task)
    names = ("step", "seconds", metric.column)
    rows = [row for row in read_metrics(run / "metrics.csv") if all(name in row for name in names)]
    if not rows:
        return None
    step, seconds, value = (np.array([row[name] for row in rows]) for name in names)
    return Curve(seed, step, seconds, metric.factor * value)


def band(curves: list[Curve], axis: str, points: int = 50) -> Band:
    """Mean and 95% bootstrap interval over seeds, on a grid that every run covers; empty where the runs have nothing in common."""
    xs = [getattr(curve, axis) for curve in curves]
    if all(np.array_equal(x, xs[0]) for x in xs):
        grid = xs[0]
    else:
        start, end = max(x[0] for x in xs), min(x[-1] for x in xs)
        grid = np.linspace(start, end, points if start <= end else 0)
    values = np.stack([np.interp(grid, x, curve.value) for x, curve in zip(xs, curves, strict=True)])
    picks = np.random.default_rng(0).integers(len(curves), size=(BOOTSTRAPS, len(curves)))
    low, high = np.percentile(values[picks].mean(1), [2.5, 97.5], axis=0)
    return Band(grid, values.mean(0), low, high, len(curves))


def read_published(path: Path, task: str) -> dict[str, Band]:
    """Published curves of a task by method, from a CSV with task, method, metric, env_step, seeds, mean, ci_low, ci_high."""
    by_method: dict[str, list[dict[str, str]]] = defaultdict(list)
    suite = suite_of(task)
    from_images = suite is not None and bool(suite.images)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if (row.get("group") == "vision") != from_images:
                continue  # the same names stand for other tasks there
            if row["task"] == task.split(":")[-1] and row["metric"] == metric_of(task).published:
                by_method[row["method"]].append(row)
    out = {}
    for method, rows in by_method.items():
        rows.sort(key=lambda row: float(row["env_step"]))
        x = np.array([float(row["env_step"]) for row in rows]) / (suite.action_repeat if suite else 1)
        factor = metric_of(task).factor
        mean, low, high = (  # one seed has no interval
            factor * np.array([float(row[name] or row["mean"]) for row in rows])
            for name in ("mean", "ci_low", "ci_high")
        )
        out[method] = Band(x, mean, low, high, seeds=int(rows[0]["seeds"]))
    return out


def group_paths(arguments: list[str]) -> dict[str, list[Path]]:
    """Paths by name: `NAME=PATH` names what is below it, to compare it with others; a plain PATH needs no name.

    Shells leave the pattern in NAME=runs/seed-* alone, so that it is resolved here."""
    groups: dict[str, list[Path]] = defaultdict(list)
    for argument in arguments:
        name, _, path = argument.partition("=")
        named = path and not Path(argument).exists()  # a directory may well be called lr=3
        given = path if named else argument
        found = [] if Path(given).exists() else sorted(glob.glob(given))
        groups[name if named else LABEL] += [Path(match) for match in found or [given]]
    return groups


def report(
    groups: dict[str, list[Path]],
    out: Path,
    published: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Draw every task found in the runs, each group of runs in its own colour; returns the files written."""
    by_task: dict[str, dict[str, list[Curve]]] = defaultdict(lambda: defaultdict(list))
    for name, paths in groups.items():
        for run in find_runs(paths):
            curve = read_curve(run)
            if curve is None:
                say(f"left out: {run}, which has not been evaluated")
            else:
                by_task[read_task_and_seed(run)[0]][name].append(curve)
    if not by_task:
        raise FlashSACError("none of the runs has been evaluated yet; run them with --eval.every above 0.")
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for task, named in sorted(by_task.items()):
        for name, curves in named.items():
            for axis, label in AXES.items():
                if not len(band(curves, axis).x):
                    say(f"no mean of {name} on {task} over {label}: one run's evaluations end before another's begin")
        stem = task.replace(":", "-").replace("/", "-")
        others = read_published(published, task) if published else {}
        written += [
            _write_csv(out / f"{stem}.csv", task, named),
            _draw(out / f"{stem}.png", task, named, others),
        ]
    return written


def _write_csv(path: Path, task: str, named: dict[str, list[Curve]]) -> Path:
    with replacing(path, in_place=True) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["task", "name", "kind", "axis", "x", "value", "ci_low", "ci_high", "seed", "seeds"])
        for name, curves in named.items():
            for axis in AXES:
                line = band(curves, axis)
                for point in zip(line.x, line.mean, line.low, line.high, strict=True):
                    writer.writerow([task, name, "mean", axis, *(f"{number:.6g}" for number in point), "", line.seeds])
            for curve in curves:
                for axis in AXES:
                    for x, value in zip(getattr(curve, axis), curve.value, strict=True):
                        writer.writerow([task, name, "seed", axis, f"{x:.6g}", f"{value:.6g}", "", "", curve.seed, ""])
    return path


def _draw(path: Path, task: str, named: dict[str, list[Curve]], others: dict[str, Band]) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    suite = suite_of(task)
    repeat = suite.action_repeat if suite else 1
    figure, panels = plt.subplots(1, 2, figsize=(11, 4), sharey=True, constrained_layout=True)
    for panel, (axis, label) in zip(panels, AXES.items(), strict=True):
        end = 0.0
        for i, (name, curves) in enumerate(named.items()):
            line = band(curves, axis)
            end = max([end, *line.x])
            for curve in curves:
                panel.plot(getattr(curve, axis), curve.value, color=f"C{i}", alpha=0.25, linewidth=0.8)
            many = f"{name}, {line.seeds} seed{'s' if line.seeds > 1 else ''}"
            panel.plot(line.x, line.mean, color=f"C{i}", linewidth=2, label=many)
            panel.fill_between(line.x, line.low, line.high, color=f"C{i}", alpha=0.2, linewidth=0)
        lines = {method: line for method, line in sorted(others.items()) if len(line.x) > 1 and axis == "step"}
        if lines:
            # As far as our runs, or to the first published points after the beginning.
            right = 1.05 * max(end, min(line.x[1] for line in lines.values()))
            panel.set_xlim(-0.03 * right, right)
            for i, (method, published) in enumerate(lines.items(), start=len(named)):
                inside = published.x <= max(end, published.x[1])
                panel.plot(
                    published.x[inside],
                    published.mean[inside],
                    color=f"C{i}",
                    linestyle="--",
                    marker="o",
                    markersize=4,
                    label=f"{method} (published)",
                )
                panel.fill_between(
                    published.x[inside],
                    published.low[inside],
                    published.high[inside],
                    color=f"C{i}",
                    alpha=0.1,
                    linewidth=0,
                )
        panel.set_xlabel(
            label if axis != "step" or repeat == 1 else f"transitions (every action is done {repeat} times)"
        )
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(metric_of(task).label)
    panels[0].legend(frameon=False)
    averaged = others or any(len(curves) > 1 for curves in named.values())
    figure.suptitle(f"{task}: mean over seeds, 95% bootstrap interval" if averaged else task)
    with replacing(path, in_place=True) as temporary:
        figure.savefig(temporary, dpi=110)
    plt.close(figure)
    return path
