"""Aggregate statistics against the package rliable, by hand, and by brute force."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from flashsac.experiments import aggregate
from tests.helpers import ROOT, from_file

ORACLE = json.loads((ROOT / "tests" / "data" / "rliable.json").read_text())
STATISTICS = (aggregate.interquartile_mean, aggregate.mean, aggregate.median, aggregate.optimality_gap)


def by_task(matrix):
    """rliable's matrix (runs, tasks) as one array for each task."""
    return list(np.array(matrix).T)


def rliable_draws(*matrices):
    """The very resamples that rliable has drawn: for each matrix, one array (resamples, runs) for each task."""
    random = np.random.RandomState(ORACLE["seed"])
    draws = [[] for _ in matrices]
    for _ in range(ORACLE["resamples"]):
        for drawn, matrix in zip(draws, matrices, strict=True):
            picks = random.choice(len(matrix), np.shape(matrix), replace=True)
            drawn.append(np.take_along_axis(np.array(matrix), picks, axis=0))
    return [list(np.array(drawn).transpose(2, 0, 1)) for drawn in draws]


@pytest.mark.parametrize("case", ORACLE["cases"].values(), ids=list(ORACLE["cases"]))
def test_statistics_and_intervals_are_those_of_rliable(case):
    scores, others = by_task(case["scores"]), by_task(case["others"])
    np.testing.assert_allclose([statistic(scores) for statistic in STATISTICS], case["aggregates"], atol=1e-12)
    (drawn,) = rliable_draws(case["scores"])
    intervals = np.transpose([aggregate.bounds(statistic(drawn)) for statistic in STATISTICS])
    np.testing.assert_allclose(intervals, case["intervals"], atol=1e-12)

    improvement = aggregate.probability_of_improvement(scores, others)
    np.testing.assert_allclose(improvement, case["improvement"][0], atol=1e-12)
    ours, theirs = rliable_draws(case["scores"], case["others"])
    interval = aggregate.bounds(aggregate.probability_of_improvement(ours, theirs))
    np.testing.assert_allclose(interval, case["improvement_interval"], atol=1e-12)

    profile = [aggregate.share_above(scores, threshold) for threshold in ORACLE["thresholds"]]
    np.testing.assert_allclose(profile, case["profile"], atol=1e-12)


def test_the_oracle_still_says_so():
    """Where rliable is installed: what it says now is what the file holds."""
    pytest.importorskip("rliable", exc_type=Exception)
    oracle = from_file("scripts/rliable_oracle.py")
    for name, case in ORACLE["cases"].items():
        again = oracle.case(name, np.array(case["scores"]), np.array(case["others"]))
        for key, value in again.items():
            np.testing.assert_allclose(value, case[key], atol=1e-12, err_msg=f"{name}, {key}")


def test_our_own_draws_give_the_same_interval_but_for_chance():
    """Against 20,000 resamples by brute force. The bounds of 2,000 resamples vary by about 0.01 here."""
    random = np.random.default_rng(3)
    scores, others = list(random.normal(0.6, 0.3, (8, 5))), list(random.normal(0.5, 0.3, (8, 4)))
    draw = lambda some: [random.choice(values, len(values)) for values in some]
    expected = aggregate.bounds(np.array([aggregate.interquartile_mean(draw(scores)) for _ in range(20_000)]))
    assert aggregate.interval(aggregate.interquartile_mean, scores) == pytest.approx(expected, abs=0.03)
    pairs = [aggregate.probability_of_improvement(draw(scores), draw(others)) for _ in range(20_000)]
    assert aggregate.improvement_interval(scores, others) == pytest.approx(aggregate.bounds(np.array(pairs)), abs=0.03)
    assert aggregate.interval(aggregate.mean, scores) == aggregate.interval(aggregate.mean, scores)


def test_every_task_counts_the_same_however_many_runs_it_has():
    """Two runs and three: each of the two counts three times, each of the three twice, twelve in all."""
    scores = [np.array([1.0, 0.0]), np.array([0.5, 0.2, 0.9])]
    repeated = sorted([1.0] * 3 + [0.0] * 3 + [0.5] * 2 + [0.2] * 2 + [0.9] * 2)
    assert aggregate.interquartile_mean(scores) == pytest.approx(np.mean(repeated[3:-3]))
    assert aggregate.mean(scores) == pytest.approx((0.5 + 1.6 / 3) / 2)
    assert aggregate.median(scores) == pytest.approx((0.5 + 1.6 / 3) / 2)
    assert aggregate.optimality_gap(scores) == pytest.approx(1 - (0.5 + 1.6 / 3) / 2)
    assert aggregate.share_above(scores, 0.45) == pytest.approx((1 / 2 + 2 / 3) / 2)
    low, high = aggregate.interval(aggregate.interquartile_mean, scores)
    assert 0 <= low < high <= 1


def test_probability_of_improvement_counts_pairs():
    scores = [np.array([3.0, 1.0]), np.array([2.0])]
    others = [np.array([1.0, 2.0, 5.0]), np.array([2.0])]
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in itertools.product(scores[0], others[0])]
    expected = (np.mean(wins) + 0.5) / 2
    assert aggregate.probability_of_improvement(scores, others) == pytest.approx(expected)
    assert aggregate.probability_of_improvement(others, scores) == pytest.approx(1 - expected)
