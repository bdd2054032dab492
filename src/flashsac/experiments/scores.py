"""Scores of groups of runs over several tasks: normalised per task, aggregated over tasks and seeds.

The last evaluation of a run counts. A score of 0 is the paper's random score, or 0 where it gives none. A score of 1 is
its reference score, or where it gives none the theoretical maximum. `summary` returns plain data, and
`dataclasses.asdict` of it can be written as JSON.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from flashsac.experiments import aggregate
from flashsac.experiments.curves import FEWEST_SEEDS, Curve
from flashsac.sims.catalog import suites, tasks

FEWEST_TASKS = 2
"""Scores of fewer tasks are not aggregated."""
POINTS = 30
"""Points of a line over steps or over time."""
THRESHOLDS = 41
"""Points of a performance profile."""

CurvesByTask = Mapping[str, Mapping[str, Sequence[Curve]]]
"""The curves of each task, by the name of their group."""


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A statistic with its 95% interval, which is None where a task has fewer than three seeds."""

    value: float
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True)
class Line:
    """A statistic over an axis. It has no points where the runs have no common range."""

    x: tuple[float, ...]
    estimates: tuple[Estimate, ...]


@dataclasses.dataclass(frozen=True)
class GroupScores:
    """The scores of one group of runs."""

    name: str
    seeds: int
    """Seeds of the task that has the fewest."""
    iqm: Estimate
    """Interquartile mean: the mean of the middle half of all runs."""
    mean: Estimate
    median: Estimate
    optimality_gap: Estimate
    profile: Line
    """Share of the runs whose score is above x."""
    iqm_over_steps: Line
    """Interquartile mean where every task has done the share x of its steps. 1 is where a task's shortest run ends."""
    iqm_over_seconds: Line
    """Interquartile mean after x seconds of training, as far as every run of the group goes."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """How probable it is that a run of `name` beats a run of `other` on the same task."""

    name: str
    other: str
    probability: Estimate


@dataclasses.dataclass(frozen=True)
class Summary:
    """The scores of all groups, and of each pair of them."""

    tasks: tuple[str, ...]
    """The tasks that count: those with a reference score that every group has."""
    at: int | None
    """The step that counts; None for each run's last evaluation."""
    groups: tuple[GroupScores, ...]
    pairs: tuple[Pair, ...]


def reference(task: str) -> tuple[float, float] | None:
    """Return the random and the reference score of a task: the paper's, or 0 and the theoretical maximum."""
    known = tasks().get(task)
    if known is None:
        return None
    normal = suites()[known.suite].highest_return(known) if known.normal is None else known.normal
    return None if normal is None else (known.random or 0.0, normal)


def normalise(task: str, values: np.ndarray) -> np.ndarray:
    """Return scores of 0 for the random score and of 1 for the reference score."""
    found = reference(task)
    assert found is not None
    random, normal = found
    return (values - random) / (normal - random)


def up_to(curve: Curve, at: int) -> Curve | None:
    """Return the curve up to a step; None if it does not reach the step, or has no evaluation before it."""
    until = int(np.searchsorted(curve.step, at, side="right"))
    if until == 0 or curve.step[-1] < at:
        return None
    return dataclasses.replace(curve, step=curve.step[:until], seconds=curve.seconds[:until], value=curve.value[:until])


def summary(
    curves: CurvesByTask, at: int | None = None, say: Callable[[str], None] = lambda line: None
) -> Summary | None:
    """Return the scores of all groups, at a step or at each run's last evaluation.

    Only tasks that every group has are compared. The result is None if these are fewer than two."""
    known = {task: _at_step(task, named, at, say) for task, named in curves.items() if reference(task)}
    names = list(dict.fromkeys(name for named in known.values() for name in named))
    common = {task: named for task, named in known.items() if all(named.get(name) for name in names)}
    if len(common) < FEWEST_TASKS:
        if len(curves) >= FEWEST_TASKS:
            say(
                f"note: no aggregate scores, because fewer than {FEWEST_TASKS} tasks with a reference score have runs of every "
                "group (`flashsac list --paper` shows the references)"
            )
        return None
    for task in curves.keys() - common.keys():
        why = "not every group has it" if task in known else "it has no reference score"
        say(f"note: {task} does not count in the aggregate scores: {why}")
    if at is None:
        _warn_of_unequal_ends(common, say)
    pairs = (_compare(common, name, other) for name, other in itertools.combinations(names, 2))
    return Summary(tuple(common), at, tuple(_score(common, name) for name in names), tuple(pairs))


def _at_step(
    task: str, named: Mapping[str, Sequence[Curve]], at: int | None, say: Callable[[str], None]
) -> Mapping[str, Sequence[Curve]]:
    """Return the curves up to the step. Runs that do not reach it are left out."""
    if at is None:
        return named
    out = {}
    for name, curves in named.items():
        reached = [cut for curve in curves if (cut := up_to(curve, at)) is not None]
        if len(reached) < len(curves):
            say(
                f"note: {len(curves) - len(reached)} runs of {name} on {task} do not reach step {at:,} and do not count"
            )
        out[name] = reached
    return out


def _warn_of_unequal_ends(curves: CurvesByTask, say: Callable[[str], None]) -> None:
    for task, named in curves.items():
        ends = [curve.step[-1] for some in named.values() for curve in some]
        if min(ends) < 0.9 * max(ends):
            say(
                f"warning: the last evaluations on {task} are between step {min(ends):,.0f} and step {max(ends):,.0f}. "
                f"`flashsac report --at {min(ends):.0f}` compares them at one step"
            )


def _score(curves: CurvesByTask, name: str) -> GroupScores:
    finals = _finals(curves, name)
    seeds = min(len({curve.seed for curve in named[name]}) for named in curves.values())
    estimate = functools.partial(_estimate, finals, seeds)
    top = max(1.0, max(float(values.max()) for values in finals))
    thresholds = np.linspace(0.0, top, THRESHOLDS)
    return GroupScores(
        name,
        seeds,
        estimate(aggregate.interquartile_mean),
        estimate(aggregate.mean),
        estimate(aggregate.median),
        estimate(aggregate.optimality_gap),
        Line(
            tuple(thresholds.tolist()),
            tuple(estimate(functools.partial(aggregate.share_above, threshold=tau)) for tau in thresholds),
        ),
        _over_steps(curves, name, seeds),
        _over_seconds(curves, name, seeds),
    )


def _finals(curves: CurvesByTask, name: str) -> aggregate.Scores:
    """Return the last scores of one group, one array (runs,) for each task."""
    return [normalise(task, np.array([curve.value[-1] for curve in named[name]])) for task, named in curves.items()]


def _estimate(scores: aggregate.Scores, seeds: int, statistic: aggregate.Statistic) -> Estimate:
    low, high = aggregate.interval(statistic, scores) if seeds >= FEWEST_SEEDS else (None, None)
    return Estimate(float(statistic(scores)), low, high)


def _over_steps(curves: CurvesByTask, name: str, seeds: int) -> Line:
    ends = {task: min(curve.step[-1] for some in named.values() for curve in some) for task, named in curves.items()}
    return _line(curves, name, seeds, lambda task, curve: curve.step / ends[task], end=1.0)


def _over_seconds(curves: CurvesByTask, name: str, seeds: int) -> Line:
    end = min(curve.seconds[-1] for named in curves.values() for curve in named[name])
    return _line(curves, name, seeds, lambda task, curve: curve.seconds, end=float(end))


def _line(curves: CurvesByTask, name: str, seeds: int, axis: Callable[[str, Curve], np.ndarray], end: float) -> Line:
    """Return the interquartile mean on a grid from where all runs of the group have begun."""
    start = max(axis(task, curve)[0] for task, named in curves.items() for curve in named[name])
    grid = np.linspace(start, end, POINTS if start <= end else 0)
    scores = [
        normalise(task, np.stack([np.interp(grid, axis(task, curve), curve.value) for curve in named[name]], axis=-1))
        for task, named in curves.items()
    ]  # (points, runs) for each task
    at_points = ([values[i] for values in scores] for i in range(len(grid)))
    estimates = tuple(_estimate(point, seeds, aggregate.interquartile_mean) for point in at_points)
    return Line(tuple(grid.tolist()), estimates)


def _compare(curves: CurvesByTask, name: str, other: str) -> Pair:
    ours, theirs = _finals(curves, name), _finals(curves, other)
    seeds = min(len({c.seed for c in named[group]}) for named in curves.values() for group in (name, other))
    low, high = aggregate.improvement_interval(ours, theirs) if seeds >= FEWEST_SEEDS else (None, None)
    return Pair(name, other, Estimate(float(aggregate.probability_of_improvement(ours, theirs)), low, high))
