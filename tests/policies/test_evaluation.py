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
    assert scores == {"eval_return": 2.5, "eval_length": 2.5, "eval_success": 0.25}
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
