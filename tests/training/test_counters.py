"""Counters by hand."""

from __future__ import annotations

import torch

from flashsac.training.counters import EpisodeStats, UpdateBudget
from flashsac.types import Step


def test_budget_counts_transitions_not_steps():
    for num_envs in (1, 3, 64, 1024):
        budget = UpdateBudget(2 / 1024)
        total = 0
        for _ in range(1024 * 12 // num_envs):
            budget.earn(num_envs)
            total += budget.spend()
        assert total == 24, num_envs


def test_budget_of_one_update_per_transition_is_exact():
    budget = UpdateBudget(0.1)
    spent = []
    for _ in range(20):
        budget.earn(1)
        spent.append(budget.spend())
    assert spent.count(1) == 2


def test_episode_returns_and_lengths():
    stats = EpisodeStats(2)
    no, valid = torch.zeros(2, dtype=torch.bool), torch.ones(2, dtype=torch.bool)
    for t in range(3):
        ended = torch.tensor([t == 1, False])
        stats.observe(Step({}, torch.tensor([1.0, 2.0]), ended, no, {}, valid, {}))
    assert stats.summary() == {"episodes": 1, "return": 2.0, "length": 2.0}
    assert stats.returns.tolist() == [1.0, 6.0]


def test_episodes_that_end_together_all_count():
    stats = EpisodeStats(300)
    all_of_them, none = torch.ones(300, dtype=torch.bool), torch.zeros(300, dtype=torch.bool)
    stats.observe(Step({}, torch.arange(300.0), all_of_them, none, {}, all_of_them, {}))
    assert stats.summary() == {"episodes": 300, "return": 149.5, "length": 1.0}
