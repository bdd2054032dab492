"""Scores of groups of runs: by hand, in the files of a report, and where runs are missing."""

from __future__ import annotations

import csv
import dataclasses
import json

import numpy as np
import pytest

from flashsac.errors import FlashSACError
from flashsac.experiments import aggregate
from flashsac.experiments.curves import Curve
from flashsac.experiments.report import report
from flashsac.experiments.scores import normalise, reference, summary, up_to

CHEETAH, WALK, REACH = "mujoco:HalfCheetah-v4", "dmc:humanoid-walk", "myosuite:myo-reach"


def curve(last, seed=0, end=100.0, seconds=50.0):
    """A run that rises evenly from 0."""
    share = np.linspace(0, 1, 5)
    return Curve(seed, end * share, seconds * share, last * share)


def curves(lasts):
    return [curve(last, seed) for seed, last in enumerate(lasts)]


def test_a_score_is_0_for_the_random_and_1_for_the_reference_score():
    assert normalise(CHEETAH, np.array([-289.415, 18165.0])).tolist() == [0.0, 1.0]
    assert normalise(CHEETAH, np.array([1000.0]))[0] == pytest.approx((1000 + 289.415) / (18165 + 289.415))
    assert normalise(WALK, np.array([0.0, 250.0])).tolist() == [0.0, 0.25], "the table has no random score"
    assert normalise(REACH, np.array([50.0])).tolist() == [0.5], "success, as curves have it: in percent"


def test_the_paper_has_references_and_dmc_a_theoretical_maximum():
    assert reference(CHEETAH) == (-289.415, 18165)
    assert reference("dmc:walker-walk") == (0, 1000), "not in the paper"
    assert reference("dmc-vision:walker-walk") == (0, 1000)
    assert reference("genesis:panda-grasp") == (0, 2.5)
    for unknown in ("dmc:lqr-lqr_2_1", "mujoco:HalfCheetah-v5", "custom:make_point", "gym:Pendulum-v1"):
        assert reference(unknown) is None


def test_a_curve_is_cut_at_a_step_that_it_reaches():
    cut = up_to(curve(8.0), 60)
    assert cut.step.tolist() == [0, 25, 50]
    assert cut.value.tolist() == [0, 2, 4]
    assert cut.seconds.tolist() == [0, 12.5, 25]
    assert up_to(curve(8.0), 100).value[-1] == 8.0
    assert up_to(curve(8.0), 101) is None
    assert up_to(dataclasses.replace(curve(8.0), step=np.linspace(20, 100, 5)), 10) is None


def test_scores_of_two_groups_by_hand():
    given = {
        WALK: {"a": curves([100, 200, 300]), "b": curves([50, 150, 900])},
        REACH: {"a": curves([40, 60, 80]), "b": curves([10, 20, 30])},
    }
    found = summary(given)
    assert found.tasks == (WALK, REACH)
    ours, theirs = found.groups
    # a: 0.1, 0.2, 0.3, 0.4, 0.6, 0.8; a quarter of six is one run at each end
    assert (ours.name, ours.seeds) == ("a", 3)
    assert ours.iqm.value == pytest.approx((0.2 + 0.3 + 0.4 + 0.6) / 4)
    assert ours.mean.value == pytest.approx(0.4)
    assert theirs.median.value == pytest.approx((1.1 / 3 + 0.2) / 2)
    assert theirs.optimality_gap.value == pytest.approx(1 - (1.1 / 3 + 0.2) / 2)
    expected = aggregate.interval(aggregate.interquartile_mean, [np.array([0.1, 0.2, 0.3]), np.array([0.4, 0.6, 0.8])])
    assert (ours.iqm.low, ours.iqm.high) == pytest.approx(expected)
    (pair,) = found.pairs
    assert (pair.name, pair.other) == ("a", "b")
    assert pair.probability.value == pytest.approx((5 / 9 + 1) / 2)
    at_half = ours.profile.estimates[ours.profile.x.index(0.5)]
    assert at_half.value == pytest.approx((0 + 2 / 3) / 2)
    # Every run rises evenly, so scores over steps and over time do too.
    for line, middle in ((ours.iqm_over_steps, 0.5), (ours.iqm_over_seconds, 25.0)):
        values = [estimate.value for estimate in line.estimates]
        assert values[-1] == pytest.approx(ours.iqm.value)
        assert np.interp(middle, line.x, values) == pytest.approx(ours.iqm.value / 2)
    assert json.loads(json.dumps(dataclasses.asdict(found)))["groups"][0]["iqm"]["value"] == ours.iqm.value


def test_without_three_seeds_of_every_task_there_is_no_interval():
    found = summary({WALK: {"a": curves([1, 2, 3])}, REACH: {"a": curves([1, 2])}})
    assert found.groups[0].seeds == 2
    assert found.groups[0].iqm.low is None
    assert found.pairs == ()
    twice = [curve(1, 0), curve(2, 1), curve(3, 1)]
    again = summary({WALK: {"a": twice}, REACH: {"a": twice}})
    assert again.groups[0].iqm.high is None, "a seed that occurs twice is one seed"


def test_only_tasks_that_every_group_has_are_compared():
    said: list[str] = []
    given = {
        WALK: {"a": curves([100]), "b": curves([100])},
        REACH: {"a": curves([50]), "b": curves([50])},
        CHEETAH: {"a": curves([9000])},
        "gym:Pendulum-v1": {"a": curves([-100]), "b": curves([-100])},
    }
    found = summary(given, say=said.append)
    assert found.tasks == (WALK, REACH)
    assert sorted(said) == [
        "note: gym:Pendulum-v1 does not count in the aggregate scores: it has no reference score",
        f"note: {CHEETAH} does not count in the aggregate scores: not every group has it",
    ]


def test_one_task_has_no_aggregate_and_two_without_references_say_why():
    said: list[str] = []
    assert summary({WALK: {"a": curves([1])}}, say=said.append) is None
    assert said == []
    assert summary({WALK: {"a": curves([1])}, REACH: {"b": curves([1])}}, say=said.append) is None
    assert "fewer than 2 tasks with a reference score have runs of every group" in said[0]


def test_runs_of_unequal_length_are_compared_at_a_step():
    said: list[str] = []
    given = {
        WALK: {"a": [curve(100, 0, end=40), curve(400, 1), curve(800, 2)]},
        REACH: {"a": [curve(40), curve(80, 1)]},
    }
    summary(given, say=said.append)
    assert said == [
        f"warning: the last evaluations on {WALK} are between step 40 and step 100. "
        "`flashsac report --at 40` compares them at one step"
    ]
    found = summary(given, at=50, say=said.append)
    assert said[1:] == [f"note: 1 runs of a on {WALK} do not reach step 50 and do not count"]
    assert found.at == 50
    assert found.groups[0].mean.value == pytest.approx(((0.2 + 0.4) / 2 + (0.2 + 0.4) / 2) / 2)
    assert summary(given, at=1000) is None


def write_run(path, task, seed, last, **settings):
    """A run as its two files show it."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"task": task, "config": {"seed": seed} | settings}))
    (path / "metrics.csv").write_text(f"step,eval_return,seconds\n0,0,0\n100,{last},10\n")


@pytest.mark.slow
def test_a_report_over_tasks_has_scores(tmp_path):
    for task in (WALK, "dmc:dog-walk"):
        for seed in range(3):
            write_run(tmp_path / "runs" / task / f"a{seed}", task, seed, 100 * (seed + 1), agent=dict(discount=0.9))
            write_run(tmp_path / "runs" / task / f"b{seed}", task, seed, 1000, agent=dict(discount=0.5))
    written = report({"flashsac": [tmp_path / "runs"]}, tmp_path / "out")
    assert {"scores.csv", "scores.png"} <= {file.name for file in written}
    assert (tmp_path / "out" / "scores.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "out" / "scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    (iqm,) = [row for row in rows if row["statistic"] == "iqm" and row["name"] == "--agent.discount 0.9"]
    # 0.1, 0.1, 0.2, 0.2, 0.3, 0.3 without the lowest and the highest
    assert (float(iqm["value"]), iqm["tasks"], iqm["seeds"]) == (pytest.approx(0.2), "2", "3")
    assert 0.1 <= float(iqm["ci_low"]) < 0.2 < float(iqm["ci_high"]) <= 0.3
    (pair,) = [row for row in rows if row["statistic"] == "probability_of_improvement"]
    assert (pair["name"], pair["other"], pair["value"]) == ("--agent.discount 0.9", "--agent.discount 0.5", "0")
    assert {row["statistic"] for row in rows} >= {"profile", "iqm_over_steps", "iqm_over_seconds"}


def test_a_step_below_one_is_refused(tmp_path):
    from flashsac.cli.report import main

    with pytest.raises(FlashSACError, match="--at must be at least 1"):
        main([str(tmp_path), "--out", str(tmp_path / "out"), "--at", "0"])
