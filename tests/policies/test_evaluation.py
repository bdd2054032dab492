"""Evaluation by hand: whose episodes count, and what of them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from flashsac.config.schema import EnvConfig
from flashsac.policies.evaluation import Evaluation, Evaluator
from flashsac.sims.base import Unsaved
from flashsac.types import EnvSpec, Step
from tests import toy_envs

LENGTHS = torch.tensor([1, 4])
STILL = SimpleNamespace(act=lambda obs: torch.zeros(2, 1))


class ShortAndLong(Unsaved):
    """Episodes of one step beside episodes of four, each step worth 1; the first long one alone succeeds, in its second step."""

    spec = EnvSpec(2, {"actor": 1}, 1, (-1.0,), (1.0,), None)

    def reset(self, seed):
        self.count = 0
        return {"actor": torch.zeros(2, 1)}

    def step(self, action):
        self.count += 1
        obs, no = {"actor": torch.zeros(2, 1)}, torch.zeros(2, dtype=torch.bool)
        ended, success = self.count % LENGTHS == 0, [False, self.count == 2]
        return Step(obs, torch.ones(2), ended, no, obs, ~no, {"success": success})


@pytest.mark.parametrize("episodes", [4, 3])
def test_every_environment_has_its_quota(episodes):
    """Else eight short episodes would end before the second long one. And asked twice, it finds the same."""
    evaluator = Evaluator(ShortAndLong, EnvConfig(), episodes, seed=0)
    for _ in range(2):
        found = evaluator.evaluate(STILL)
        assert found.returns.tolist() == [1, 4, 1, 4][:episodes]
        assert found.lengths.tolist() == [1, 4, 1, 4][:episodes]
        assert found.successes.tolist() == [0, 1, 0, 0][:episodes], "at any time of its own episode"
        assert evaluator.env.count == 8


def test_what_is_made_of_them():
    scores = Evaluator(ShortAndLong, EnvConfig(), 4, seed=0).evaluate(STILL).summary()
    assert scores == {
        "eval_return": 2.5,
        "eval_return_std": 1.5,
        "eval_length": 2.5,
        "eval_success": 0.25,
        "eval_void": 0,
    }
    assert scores.keys() == Evaluation.METRICS.keys()


def test_success_that_is_told_only_at_the_end_of_an_episode():
    """While one environment ends its episode, the others say nothing."""
    still = SimpleNamespace(act=lambda obs: torch.zeros(len(obs["actor"]), 2))
    found = Evaluator(toy_envs.JudgedAtTheEnd, EnvConfig(), 12, seed=0).evaluate(still)
    assert set(found.lengths) == {3, 4}
    assert found.successes.tolist() == (found.lengths == 3).tolist()


@pytest.mark.parametrize(("told", "expected"), [([1, np.nan, 0, 1], 0.5), ([np.nan] * 4, None), ([1, 1, 0, 1], 0.75)])
def test_an_episode_without_a_word_of_success_had_none_where_others_had(told, expected):
    summary = Evaluation(np.ones(4), np.ones(4), np.array(told)).summary()
    assert summary.get("eval_success") == expected


# --- void episodes -----------------------------------------------------------------------------------------------------


class Breaking(ShortAndLong):
    """The long episodes lose one a step, and their third step is their last and as told; the short ones are whole."""

    def __init__(self, reward=-1.0, valid=False, truncated=False, final=0.0):
        self.told, self.seen = (reward, valid, truncated, final), []

    def step(self, action):
        self.seen.append(action)
        step = super().step(action)
        reward, valid, truncated, final = self.told
        step.reward[1] = -1.0
        step.terminated[1] = False
        if self.count % 3 == 0:
            obs = {"actor": torch.tensor([[0.0], [final]])}
            ok, cut = torch.tensor([True, valid]), torch.tensor([False, truncated])
            step.reward[1] = reward
            step = step._replace(truncated=cut, valid=ok, final_obs=obs)
        return step


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "told",
    [
        dict(reward=NAN),
        dict(reward=INF),
        dict(reward=-1e16),
        dict(final=NAN),
        dict(reward=NAN, truncated=True),
        dict(final=INF, truncated=True),
        dict(),
    ],
    ids=str,
)
def test_an_episode_that_breaks_the_simulator_is_void(told):
    found = Evaluator(lambda: Breaking(**told), EnvConfig(), 4, seed=0).evaluate(STILL)
    assert found.returns.tolist() == [1, 1], "those of the other environment"
    assert found.void == 2
    assert found.episodes == 4
    assert found.summary() == {
        "eval_return": 1,
        "eval_return_std": 0,
        "eval_length": 1,
        "eval_success": 0,
        "eval_void": 2,
    }
    assert "2 of 4 evaluation episodes broke the simulator" in (found.problem or "")
    assert not found.can_be_best


def test_a_cut_without_a_final_observation_is_not_void():
    found = Evaluator(lambda: Breaking(truncated=True), EnvConfig(), 4, seed=0).evaluate(STILL)
    assert found.void == 0
    assert found.problem is None
    assert found.returns.tolist() == [1, -2, 1, -2], "what the last step paid nobody knows"


@pytest.mark.parametrize("bad", [NAN, INF])
def test_an_action_that_is_no_number_voids_its_episode_and_never_reaches_the_simulator(bad):
    acting = SimpleNamespace(act=lambda obs: torch.tensor([[0.5], [bad]]))
    evaluator = Evaluator(lambda: Breaking(valid=True, truncated=True), EnvConfig(), 2, seed=0)
    found = evaluator.evaluate(acting)
    assert found.void == 1
    assert found.returns.tolist() == [1]
    assert all(action.tolist() == [[0.5], [0.0]] for action in evaluator.env.seen)


def test_void_alone_gives_no_return():
    found = Evaluation(np.empty(0), np.empty(0), np.empty(0), void=3)
    assert found.summary() == {"eval_void": 3}
    assert "none is left" in (found.problem or "")


@pytest.mark.parametrize(("void", "fit"), [(0, True), (1, True), (2, False), (10, False)])
def test_one_void_episode_of_ten_may_be(void, fit):
    rest = np.ones(10 - void)
    assert Evaluation(rest, rest, rest, void).can_be_best == fit


def test_every_step_is_a_sign_of_life():
    steps: list[int] = []
    evaluator = Evaluator(ShortAndLong, EnvConfig(), 4, seed=0)
    evaluator.evaluate(STILL, lambda: steps.append(evaluator.env.count))
    assert steps == list(range(1, 9))
