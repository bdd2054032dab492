"""Reward statistics against the whole history."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flashsac.core.reward_scale import RewardScale


def test_statistics_match_brute_force():
    rng = np.random.default_rng(0)
    gamma, envs = 0.95, 4
    scale = RewardScale(envs, gamma, 5.0)
    returns, seen = np.zeros(envs), []
    for _ in range(300):
        reward = rng.normal(1.0, 3.0, envs).astype(np.float32)
        done, valid = rng.random(envs) < 0.1, rng.random(envs) > 0.05
        scale.observe(
            torch.where(torch.tensor(valid), torch.tensor(reward), torch.nan), torch.tensor(done), torch.tensor(valid)
        )
        for e in range(envs):
            if not valid[e]:
                returns[e] = 0.0
                continue
            returns[e] = gamma * returns[e] + float(reward[e])
            seen.append(returns[e])  # recorded before it is zeroed: the last return of an episode counts
            if done[e]:
                returns[e] = 0.0
    expected = max(np.sqrt(np.var(seen) + 1e-8), np.abs(seen).max() / 5.0)
    assert scale.scale().item() == pytest.approx(expected, rel=1e-5)
    assert scale.stats[0].item() == len(seen)
    assert scale.stats[1].item() == pytest.approx(np.mean(seen), rel=1e-6)


def test_terminal_reward_does_not_leak_into_the_next_episode():
    scale = RewardScale(1, 1.0, 5.0)
    step = lambda r, done: scale.observe(torch.tensor([r]), torch.tensor([done]), torch.tensor([True]))
    step(100.0, True)
    step(1.0, False)
    assert scale.returns.item() == 1.0
    assert scale.stats[3].item() == 100.0, "the episode's last return was recorded"


def test_large_returns_are_bounded_by_the_support():
    scale = RewardScale(1, 0.99, 5.0)
    for _ in range(2000):
        scale.observe(torch.tensor([10.0]), torch.tensor([False]), torch.tensor([True]))
    assert scale.stats[3].item() / scale.scale().item() <= 5.0 + 1e-3
