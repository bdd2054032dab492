"""Where two engines offer one task, they offer the same task: fixed policies see and earn the same, statistically."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

import pytest
import torch

from flashsac.config.schema import EnvConfig
from flashsac.sims.catalog import tasks
from flashsac.sims.make import make_env
from flashsac.types import EnvSpec

pytestmark = pytest.mark.slow

EPISODES, LIMIT = 24, 80


class Seen(NamedTuple):
    """What came of some episodes of one engine."""

    spec: EnvSpec
    returns: torch.Tensor
    lengths: torch.Tensor
    terminated: torch.Tensor
    rewards: torch.Tensor
    obs: torch.Tensor
    """Of all steps, one row each."""


def episodes(task: str, engine: str, gain: float) -> Seen:
    """The first episode of every environment, each under a fixed linear policy of its own that mixes all observations into every
    action; one policy for all would make a single sample of a task that starts always the same."""
    env = make_env(task, EnvConfig(num_envs=EPISODES, engine=engine, max_episode_steps=LIMIT))
    generator = torch.Generator().manual_seed(0)
    weights = gain * torch.randn(EPISODES, env.spec.obs["actor"], env.spec.action_dim, generator=generator)
    weights /= env.spec.obs["actor"] ** 0.5
    obs = env.reset(7)["actor"]
    alive = torch.ones(EPISODES, dtype=torch.bool)
    returns, lengths = torch.zeros(EPISODES), torch.zeros(EPISODES)
    terminated = torch.zeros(EPISODES, dtype=torch.bool)
    rewards, seen = [], [obs]
    while alive.any():
        step = env.step(torch.tanh(torch.einsum("eo,eoa->ea", obs, weights)))
        returns += step.reward * alive
        lengths += alive
        terminated |= step.terminated & alive
        rewards.append(step.reward[alive])
        seen.append(step.final_obs["actor"][alive])
        alive &= ~(step.terminated | step.truncated)
        obs = step.obs["actor"]
    env.close()
    return Seen(env.spec, returns, lengths, terminated, torch.cat(rewards), torch.cat(seen))


def assert_same_mean(a: torch.Tensor, b: torch.Tensor, what: str, slack: float = 0.02) -> None:
    """Within four standard errors, and a little of the spread for what two builds of MuJoCo do differently."""
    spread = torch.maximum(a.std(), b.std())
    error = 4 * ((a.var() / len(a) + b.var() / len(b)).sqrt()) + slack * spread + 1e-4
    assert (a.mean() - b.mean()).abs() <= error, f"{what}: {a.mean():.4g} against {b.mean():.4g}, allowed {error:.2g}"


@pytest.mark.parametrize(
    ("task", "other", "needs"),
    [
        ("mujoco:HalfCheetah-v4", "gymnasium", "mujoco"),
        ("mujoco:Hopper-v4", "gymnasium", "mujoco"),
        ("dmc:humanoid-walk", "dm_control", "dm_control"),
        ("dmc:cartpole-swingup_sparse", "dm_control", "dm_control"),
        ("robotics:AdroitHandRelocate-v1", "gymnasium", "gymnasium_robotics"),
        ("robotics:AdroitHandDoor-v1", "gymnasium", "gymnasium_robotics"),
        ("myosuite:myo-reach", "gymnasium", "myosuite"),
        ("metaworld:Reach-v3", "gymnasium", "metaworld"),
    ],
)
def test_envpool_and_the_simulators_own_package_agree(task, other, needs):
    for module in ("envpool", needs):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed here")
    assert {"envpool", other} <= set(tasks()[task].engines)
    ours, theirs = episodes(task, "envpool", 0.5), episodes(task, other, 0.5)
    assert ours.spec.obs == theirs.spec.obs
    assert ours.spec.action_low == pytest.approx(theirs.spec.action_low)
    assert ours.spec.action_high == pytest.approx(theirs.spec.action_high)
    assert_same_mean(ours.returns, theirs.returns, "return")
    assert_same_mean(ours.lengths, theirs.lengths, "length")
    assert_same_mean(ours.terminated.float(), theirs.terminated.float(), "share of episodes that terminate")
    for share in (
        0.05,
        0.95,
    ):  # what lies beyond comes from one or two of the two dozen episodes: a bonus, a goal close by
        a, b = ours.rewards.quantile(share), theirs.rewards.quantile(share)
        spread = torch.maximum(ours.rewards.std(), theirs.rewards.std()) + 1e-3
        assert (a - b).abs() < spread, f"rewards at {share:.0%}: {a:.4g} against {b:.4g}"
    # The same numbers in the same order: a policy must not care which engine trained it.
    for i in range(ours.spec.obs["actor"]):
        a, b = ours.obs[:, i], theirs.obs[:, i]
        spread = torch.maximum(a.std(), b.std()) + 1e-3
        assert (a.mean() - b.mean()).abs() < 0.5 * spread, f"observation {i}: {a.mean():.4g} against {b.mean():.4g}"
