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


# --- the guard ---------------------------------------------------------------------------------------------------------


def fed(rewards, *, envs=1, gamma=0.9, guard=True, done=None) -> RewardScale:
    """A scale after these rewards, (steps, envs) or (steps,)."""
    scale = RewardScale(envs, gamma, 5.0, guard=guard)
    feed(scale, rewards, done)
    return scale


def feed(scale, rewards, done=None) -> None:
    rewards = np.asarray(rewards, np.float32).reshape(len(rewards), -1)
    done = np.zeros(rewards.shape, bool) if done is None else done
    for reward, ended in zip(rewards, done, strict=True):
        scale.observe(torch.tensor(reward), torch.tensor(ended), torch.ones(len(reward), dtype=torch.bool))


def brute_force(rewards, gamma=0.9) -> float:
    """Eq. 6 of one environment without episode ends."""
    returns, total = [], 0.0
    for reward in np.asarray(rewards, np.float32):
        total = gamma * total + float(reward)
        returns.append(total)
    return max(np.sqrt(np.var(returns) + 1e-8), np.abs(returns).max() / 5)


def once(value, *, at=300, steps=1000):
    rewards = np.random.default_rng(0).uniform(0, 1, steps)
    rewards[at] = value
    return rewards


@pytest.mark.parametrize("outlier", [1e6, -1e6, 1e12, 1001.0])
def test_one_outlier_leaves_the_scale_alone(outlier):
    honest, attacked = fed(once(0.5)), fed(once(outlier))
    assert attacked.scale().item() == pytest.approx(honest.scale().item(), rel=0.02)
    assert attacked.outliers() == 1
    assert fed(once(outlier), guard=False).scale().item() > 100 * honest.scale().item(), "no attack at all"


def test_the_scale_is_that_of_before_from_the_very_step_of_the_outlier():
    rewards = once(1e6)
    expected = fed(rewards[:300]).scale()
    scale = fed(rewards[:301])
    assert scale.scale() == expected
    assert scale.outliers() == 1, "it is counted at once"
    feed(scale, rewards[301:])
    assert scale.scale() == expected, "as long as it may still be confirmed"


def test_after_the_horizon_the_statistics_go_on_without_the_outlier():
    """By brute force: those from before the jump, and those after the horizon with the return begun anew."""
    horizon = RewardScale(1, 0.9, 5.0)
    rewards = once(1e6, steps=300 + 1 + 10_000 + 500)
    feed(horizon, rewards)
    parts, returns = (rewards[:300], rewards[300 + 1 + 10_000 :]), []
    for part in parts:
        total = 0.0
        for reward in part.astype(np.float32):
            total = 0.9 * total + float(reward)
            returns.append(total)
    expected = max(np.sqrt(np.var(returns) + 1e-8), np.abs(returns).max() / 5)
    assert horizon.scale().item() == pytest.approx(expected, rel=1e-6)
    assert horizon.stats[0].item() == 800
    assert horizon.outliers() == 1


def test_a_level_that_stays_is_accepted_soon_and_nothing_is_lost():
    rewards = np.concatenate([np.full(500, 1.0), np.full(200, 1000.0 * 10)])
    scale = fed(rewards[:600])
    assert scale.scale().item() == pytest.approx(brute_force(rewards[:500]), rel=1e-6), "not yet"
    feed(scale, rewards[600:601])
    assert scale.outliers() == 0, "confirmed, a hundred steps after the first"
    feed(scale, rewards[601:])
    assert torch.equal(scale.stats, fed(rewards, guard=False).stats)
    assert scale.scale().item() == pytest.approx(brute_force(rewards), rel=1e-6)


@pytest.mark.parametrize("later", [0, 1, 700])
def test_a_second_environment_confirms_at_once(later):
    rewards = np.ones((2000, 4))
    rewards[500, 1] = rewards[500 + later, 2] = 1e5
    scale = fed(rewards, envs=4)
    assert scale.outliers() == 0
    assert torch.equal(scale.stats, fed(rewards, envs=4, guard=False).stats)


def test_a_burst_in_one_environment_does_not_confirm_itself():
    """A simulator that explodes returns several huge rewards before it is reset."""
    rewards = np.ones((1000, 4))
    rewards[500:550, 1] = 10.0 ** np.linspace(3.5, 9, 50)
    scale = fed(rewards, envs=4)
    assert scale.outliers() == 1
    assert scale.scale() == fed(rewards[:500], envs=4).scale()


def test_an_outlier_far_from_the_next_one_is_not_confirmed_by_it():
    rewards = np.ones((2000, 20))  # the horizon of 10,000 transitions is 500 steps
    rewards[[100, 700, 1300], [3, 5, 3]] = 1e6
    scale = fed(rewards, envs=20)
    assert scale.outliers() == 3
    assert scale.scale().item() == pytest.approx(2.0, rel=0.01), "the return of a reward of one is ten"


HONEST = {
    "the first reward ever": np.full(300, 1e9),
    "zeros for long": np.concatenate([np.zeros(5000), np.full(50, 1e4), np.zeros(100)]),
    "nearly nothing for long": np.concatenate([np.full(5000, 1e-6), np.full(50, 1e4)]),
    "sparse": (np.random.default_rng(0).random(5000) < 0.01) * 1.0,
    "a long tail": np.concatenate([np.full(500, 1e-4), np.full(50, 1.0), np.full(50, 100.0)]),
    "growth by orders of magnitude": np.geomspace(1e-6, 1e6, 2000),
    "a goal after small costs": np.concatenate([np.full(999, -0.05), [100.0]]),
    "a swing-up": -16 * np.random.default_rng(0).random(2000),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_rewards_give_the_same_bits(name):
    guarded, plain = (RewardScale(1, 0.99, 5.0, guard=guard) for guard in (True, False))
    for reward in HONEST[name]:
        for scale in (guarded, plain):
            feed(scale, [reward])
        assert guarded.scale() == plain.scale()
    assert torch.equal(guarded.stats, plain.stats)
    assert torch.equal(guarded.returns, plain.returns)
    assert guarded.outliers() == 0


@pytest.mark.parametrize("stop", [99, 101, 500, 700], ids=["before", "just after", "open", "rejected"])
def test_the_guard_goes_on_from_a_checkpoint(stop):
    rewards = np.random.default_rng(0).random((1000, 20))
    rewards[100, 3] = 1e6
    whole, first, second = fed(rewards, envs=20), fed(rewards[:stop], envs=20), RewardScale(20, 0.9, 5.0)
    second.load_state_dict(first.state_dict())
    feed(second, rewards[stop:])
    assert torch.equal(second.stats, whole.stats)
    assert second.scale() == whole.scale()
    assert second.outliers() == whole.outliers() == 1


def test_a_checkpoint_from_before_the_guard_still_loads():
    old = fed(once(0.5), guard=False).state_dict()
    assert set(old) == {"returns", "stats"}
    scale = RewardScale(1, 0.9, 5.0)
    scale.load_state_dict(old)
    feed(scale, [1e6])
    assert scale.outliers() == 1
    assert scale.scale() == fed(once(0.5)).scale()
