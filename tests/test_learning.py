"""Learning is the test that counts: real simulators, thresholds for every seed."""

from __future__ import annotations

import pytest

import flashsac
from tests import toy_envs
from tests.helpers import TINY

SMALL = dict(batch_size=64, warmup=500, critic_width=32, actor_width=32, updates_per_transition=1.0, precision="fp32")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pendulum(tmp_path, seed):
    """A random policy gets about -1200; -300 swings up and stays up from most starts."""
    result = flashsac.train(
        "gym:Pendulum-v1",
        preset="single",
        steps=6000,
        seed=seed,
        run_dir=str(tmp_path / "run"),
        quiet=True,
        eval=dict(every=0, episodes=10),
        agent=SMALL,
    )
    assert flashsac_eval(result.run_dir, "gym:Pendulum-v1") > -300


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cartpole_balance(tmp_path, seed):
    """Out of 1000; a random policy gets about 350."""
    result = flashsac.train(
        "dmc:cartpole-balance",
        preset="single",
        steps=6000,
        seed=seed,
        run_dir=str(tmp_path / "run"),
        quiet=True,
        eval=dict(every=0),
        agent=SMALL,
    )
    assert flashsac_eval(result.run_dir, "dmc:cartpole-balance") > 850


def flashsac_eval(run_dir, task) -> float:
    from flashsac.config import EnvConfig
    from flashsac.evaluate import Evaluator

    policy = flashsac.load_policy(run_dir)
    return float(Evaluator(task, EnvConfig(), 10, seed=99).run(policy.act).returns.mean())


def test_asymmetric_critic_learns(tmp_path):
    agent = TINY["agent"] | dict(updates_per_transition=0.5, batch_size=64, critic_width=32, actor_width=16)
    settings = TINY | dict(steps=6000, agent=agent, eval=dict(every=0), quiet=True)
    result = flashsac.train(toy_envs.Privileged, run_dir=str(tmp_path / "run"), **settings)
    policy = flashsac.load_policy(result.run_dir)
    assert policy.obs_dim == 2, "the policy never sees what only the critic may see"
    assert result.row["return"] > -9, "a random walk gets about -16, the best policy about -3"
