"""Curves over seeds: evaluated return or success against steps and against time, as PNG and CSV. Scores over tasks.

Runs of different settings never share a curve, unless the user gave them one name. Means have 95% bootstrap intervals.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from flashsac.errors import FlashSACError
from flashsac.experiments.curves import AXES, Curve, band, read_curve, read_published
from flashsac.experiments.drawing import draw
from flashsac.experiments.grouping import (
    LABEL,
    EvaluatedRun,
    differing_settings,
    find_runs,
    flatten,
    repeated_seeds,
    split_by_settings,
)
from flashsac.experiments.score_files import write_scores
from flashsac.experiments.scores import summary
from flashsac.experiments.wall_clock import write_wall_clock
from flashsac.runs.directory import read_recorded_settings, read_task_and_seed
from flashsac.system.files import replacing
from flashsac.system.limits import flag

Say = Callable[[str], None]


def report(
    groups: dict[str, list[Path]],
    out: Path,
    published: Path | None = None,
    say: Say = lambda line: None,
    at: int | None = None,
) -> list[Path]:
    """Draw every task found in the runs, each group of runs in its own colour; returns the files written.

    Scores over several tasks count at the step `at`, or at each run's last evaluation."""
    by_task: dict[str, dict[str, list[EvaluatedRun]]] = defaultdict(lambda: defaultdict(list))
    for name, paths in groups.items():
        for run in find_runs(paths):
            curve = read_curve(run)
            if curve is None:
                say(f"left out: {run}, which has not been evaluated")
            else:
                settings = flatten(read_recorded_settings(run))
                by_task[read_task_and_seed(run)[0]][name].append(EvaluatedRun(run, curve, settings))
    if not by_task:
        raise FlashSACError("none of the runs has been evaluated yet; run them with --eval.every above 0.")
    out.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    separated = {task: _separate(task, given, say) for task, given in sorted(by_task.items())}
    curves_by_task = {
        task: {name: [run.curve for run in runs] for name, runs in found.items()} for task, found in separated.items()
    }
    for task, named in curves_by_task.items():
        for name, curves in named.items():
            for axis, label in AXES.items():
                if not len(band(curves, axis).x):
                    say(f"no mean of {name} on {task} over {label}: one run's evaluations end before another's begin")
        stem = task.replace(":", "-").replace("/", "-")
        others = read_published(published, task) if published else {}
        written += [_write_csv(out / f"{stem}.csv", task, named), draw(out / f"{stem}.png", task, named, others)]
    scores = summary(curves_by_task, at, say)
    written += write_scores(scores, out) if scores else []
    run_paths = {
        task: {name: [run.path for run in runs] for name, runs in found.items()} for task, found in separated.items()
    }
    return [*written, *write_wall_clock(run_paths, out, say)]


def _separate(task: str, given: dict[str, list[EvaluatedRun]], say: Say) -> dict[str, list[EvaluatedRun]]:
    """Return the runs of each curve. A group without a name is split by settings; a named one is kept, with a
    warning."""
    out: dict[str, list[EvaluatedRun]] = {}
    for name, runs in given.items():
        different = ", ".join(flag(setting) for setting in differing_settings(runs))
        groups = split_by_settings(runs)
        if name == LABEL:
            if different:
                say(
                    f"note: the runs on {task} differ in {different}. Each combination has its own curve; "
                    "NAME=PATH puts runs into one."
                )
            prefix = f"{name} " if different and len(given) > 1 else ""
            out |= {f"{prefix}{label}": some for label, some in groups.items()}
            continue
        if len(groups) > 1:
            say(f"warning: the runs of {name} on {task} differ in {different or 'algorithm'}, and share one curve")
        out[name] = runs
    for name, runs in out.items():
        for seed, paths in repeated_seeds(runs).items():
            say(
                f"warning: seed {seed} occurs {len(paths)} times in {name} on {task}: {', '.join(map(str, paths))}. "
                "Repeated seeds are not independent, so the interval is too narrow."
            )
    return out


def _write_csv(path: Path, task: str, named: dict[str, list[Curve]]) -> Path:
    """Write means and single runs; ci_low and ci_high are empty where there are too few seeds."""
    with replacing(path, in_place=True) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["task", "name", "kind", "axis", "x", "value", "ci_low", "ci_high", "seed", "seeds"])
        for name, curves in named.items():
            for axis in AXES:
                line = band(curves, axis)
                for *point, low, high in zip(line.x, line.mean, line.low, line.high, strict=True):
                    interval = (f"{low:.6g}", f"{high:.6g}") if line.has_interval else ("", "")
                    numbers = (*(f"{number:.6g}" for number in point), *interval)
                    writer.writerow([task, name, "mean", axis, *numbers, "", line.seeds])
            for curve in curves:
                for axis in AXES:
                    for x, value in zip(getattr(curve, axis), curve.value, strict=True):
                        writer.writerow([task, name, "seed", axis, f"{x:.6g}", f"{value:.6g}", "", "", curve.seed, ""])
    return path
