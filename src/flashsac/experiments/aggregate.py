"""Statistics of normalised scores over tasks and seeds, with stratified bootstrap intervals (Agarwal et al., 2021).

`Scores` are one array for each task, with the scores of its runs along the last axis; axes before it are kept. Tasks
may have different numbers of runs. Every task counts the same: each of its runs weighs one over their number. For equal
numbers all results are those of the package rliable, which tests compare with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

Scores = Sequence[np.ndarray]
"""One array (..., runs) for each task."""
Statistic = Callable[[Scores], np.ndarray]

BOOTSTRAPS = 2000


def interquartile_mean(scores: Scores) -> np.ndarray:
    """Return the mean of the middle half of all runs.

    Each run is repeated until all tasks have the same number. Of these numbers a quarter, rounded down, is dropped at
    each end."""
    sizes = [values.shape[-1] for values in scores]
    size = math.lcm(*sizes)
    values = np.concatenate(scores, axis=-1)
    repeats = np.concatenate([np.full(n, size // n) for n in sizes])
    order = np.argsort(values, axis=-1)
    values, repeats = np.take_along_axis(values, order, axis=-1), repeats[order]
    total = size * len(scores)
    cut = total // 4
    end = np.cumsum(repeats, axis=-1)
    kept = np.clip(np.minimum(end, total - cut) - np.maximum(end - repeats, cut), 0, None)
    return (kept * values).sum(-1) / (total - 2 * cut)


def mean(scores: Scores) -> np.ndarray:
    """Return the mean over tasks of each task's mean."""
    return _task_means(scores).mean(0)


def median(scores: Scores) -> np.ndarray:
    """Return the median over tasks of each task's mean."""
    return np.median(_task_means(scores), axis=0)


def optimality_gap(scores: Scores) -> np.ndarray:
    """Return by how much the runs fall short of a score of 1, on average. A run beyond 1 counts as 1."""
    return 1.0 - _task_means([np.minimum(values, 1.0) for values in scores]).mean(0)


def share_above(scores: Scores, threshold: float) -> np.ndarray:
    """Return the share of the runs whose score is above the threshold: one point of a performance profile."""
    return _task_means([values > threshold for values in scores]).mean(0)


def probability_of_improvement(scores: Scores, others: Scores) -> np.ndarray:
    """Return how probable it is that a run of the first scores beats one of the others on the same task.

    This is the Mann-Whitney statistic over the number of pairs, averaged over tasks. A tie counts as half."""
    by_task = []
    for ours, theirs in zip(scores, others, strict=True):
        difference = ours[..., :, None] - theirs[..., None, :]
        by_task.append((0.5 * (1 + np.sign(difference))).mean((-2, -1)))
    return np.mean(by_task, axis=0)


def resample(scores: Scores, random: np.random.Generator, times: int = BOOTSTRAPS) -> list[np.ndarray]:
    """Draw as many runs of each task as it has, with replacement: arrays (times, runs)."""
    return [values[random.integers(len(values), size=(times, len(values)))] for values in scores]


def bounds(samples: np.ndarray) -> tuple[float, float]:
    """Return the 95% interval between percentiles of a resampled statistic."""
    low, high = np.percentile(samples, [2.5, 97.5])
    return float(low), float(high)


def interval(statistic: Statistic, scores: Scores) -> tuple[float, float]:
    """Return the 95% interval of a statistic of one group. The same scores always give the same interval."""
    return bounds(statistic(resample(scores, np.random.default_rng(0))))


def improvement_interval(scores: Scores, others: Scores) -> tuple[float, float]:
    """Return the 95% interval of the probability of improvement. Both groups are resampled independently."""
    random = np.random.default_rng(0)
    return bounds(probability_of_improvement(resample(scores, random), resample(others, random)))


def _task_means(scores: Scores) -> np.ndarray:
    """(tasks, ...)"""
    return np.stack([values.mean(-1) for values in scores])
