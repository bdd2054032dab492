"""Learning is the test that counts: real simulators, thresholds far above what a random policy gets."""

from __future__ import annotations

import pytest

import flashsac
from tests import toy_envs
from tests.helpers import TINY

pytestmark = pytest.mark.slow

# Small networks at three times the learning rate: the temperature and the slow target need thousands of updates whatever the task,
# and the tests have minutes.
SMALL = dict(
    batch_size=64,
    warmup=500,
    critic_width=32,
    actor_width=32,
    learning_rate=1e-3,
    learning_rate_end=5e-4,
)


@pytest.mark.parametrize(
    ("task", "threshold"),
    [
        ("gym:Pendulum-v1", -400),  # a random policy gets about -1200; this swings up and stays up
        ("mujoco:InvertedPendulum-v4", 800),  # out of 1000; a random policy falls after about 5 steps
    ],
)
def test_learns(tmp_path, task, threshold):
    settings: dict = dict(preset="single", steps=8000, seed=0, quiet=True, video=False, eval=dict(every=0), agent=SMALL)
    result = flashsac.train(task, run_dir=str(tmp_path / "run"), **settings)
    assert evaluated(result.run_dir, task) > threshold


def evaluated(run_dir, task) -> float:
    from flashsac.config.schema import EnvConfig
    from flashsac.policies.evaluation import Evaluator

    policy = flashsac.load_policy(run_dir)
    return float(Evaluator(task, EnvConfig(), 10, seed=99).evaluate(policy).returns.mean())


def test_asymmetric_critic_learns(tmp_path):
    agent = TINY["agent"] | SMALL | dict(updates_per_transition=1.0, actor_width=16)
    settings = TINY | dict(steps=4000, agent=agent, eval=dict(every=0), quiet=True)
    result = flashsac.train(toy_envs.Privileged, run_dir=str(tmp_path / "run"), **settings)
    policy = flashsac.load_policy(result.run_dir)
    assert policy.obs_dim == 2, "the policy never sees what only the critic may see"
    assert result.row["return"] > -9, "a random walk gets about -16, the best policy about -3"


def test_learns_from_images(tmp_path):
    """Encoder, shifts, three-step returns and BatchNorm's statistics together: any of them wrong, and it stays a random walk."""
    agent = dict(batch_size=64, warmup=400, critic_width=32, actor_width=16, image_channels=8, image_shift=1)
    env = dict(num_envs=2, frame_stack=1)
    settings: dict = dict(steps=3000, quiet=True, video=False, compile="off", eval=dict(every=0), env=env)
    make = lambda: toy_envs.PixelPoint(size=24)
    flashsac.train(
        make, preset="vision", run_dir=str(tmp_path), agent=agent | dict(updates_per_transition=1.0), **settings
    )
    returns = flashsac.evaluate(tmp_path, make, episodes=20).returns
    assert returns.mean() > -10, "a random walk gets about -25, the best policy about -3"
