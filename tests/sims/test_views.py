"""Less and more than a simulator shows: hidden columns, histories, settings of its own; and a whole run with all of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import flashsac
from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError
from flashsac.sims.base import OverlappingVecEnv
from flashsac.sims.check import check_env
from flashsac.sims.make import make_env
from tests import toy_envs
from tests.helpers import TINY

GO1 = "playground:Go1JoystickFlatTerrain"


@pytest.fixture(scope="module")
def plain():
    env = make_env(GO1, EnvConfig(num_envs=2, max_episode_steps=8))
    yield env
    env.close()


def rollout(env, steps=20):
    generator = torch.Generator().manual_seed(0)
    obs, moments = env.reset(3), []
    for _ in range(steps):
        step = env.step(2 * torch.rand(2, env.spec.action_dim, generator=generator) - 1)
        moments.append((obs, step))
        obs = step.obs
    return moments


def test_check_env_with_everything():
    env = make_env(GO1, EnvConfig(num_envs=2, max_episode_steps=8, history=3, blind=True))
    assert isinstance(env, OverlappingVecEnv)
    assert env.spec.obs == {"actor": 45, "critic": 123}
    assert env.spec.groups["history"][0] == (3 * 45,)
    check_env(env, steps=20)
    env.close()


def test_blind_hides_the_velocity_and_nothing_else(plain):
    env = make_env(GO1, EnvConfig(num_envs=2, max_episode_steps=8, blind=True))
    for (obs, step), (all_obs, all_step) in zip(rollout(env), rollout(plain), strict=True):
        assert torch.equal(obs["actor"], all_obs["actor"][:, 3:])
        assert torch.equal(step.final_obs["actor"], all_step.final_obs["actor"][:, 3:])
        assert torch.equal(obs["critic"], all_obs["critic"])
    whole, blind = (np.arange(width, dtype=float) for width in (48, 45))
    turned, turned_blind = (
        rows[list(spec.mirrors["actor"].source)] * spec.mirrors["actor"].sign
        for rows, spec in ((whole, plain.spec), (blind + 3, env.spec))
    )
    assert turned_blind.tolist() == turned[3:].tolist()
    env.close()


def test_no_privileged_leaves_the_critic_with_what_the_actor_sees():
    env = make_env(GO1, EnvConfig(num_envs=2, privileged=False))
    assert env.spec.obs == {"actor": 48}
    assert env.spec.critic_group == "actor"
    assert set(env.reset(0)) == {"actor"}
    env.close()


def test_a_history_is_the_observations_before(plain):
    env = make_env(GO1, EnvConfig(num_envs=2, max_episode_steps=8, history=3))
    episode: list[list[torch.Tensor]] = [[], []]
    ended = 0
    for obs, step in rollout(env):
        for i in range(2):
            episode[i].append(obs["actor"][i])
            before = [episode[i][0]] * 3 + episode[i]
            assert torch.equal(obs["history"][i], torch.cat(before[-4:-1]))
            assert torch.equal(step.final_obs["history"][i], torch.cat(before[-3:]))
            if step.terminated[i] or step.truncated[i]:
                episode[i] = []
                ended += 1
    assert ended >= 4
    env.close()


def test_settings_of_its_own(plain):
    doubled = make_env(GO1, EnvConfig(num_envs=2, max_episode_steps=8, options=("tracking_lin_vel_scale=2.0",)))
    for (_, step), (_, usual) in zip(rollout(doubled), rollout(plain), strict=True):
        assert torch.equal(step.final_obs["actor"], usual.final_obs["actor"])
        term = "reward_tracking_lin_vel"
        assert step.info[term] == pytest.approx(2.0 * usual.info[term])
        assert step.info[term].max() > 0
    doubled.close()


@pytest.mark.parametrize(
    ("task", "config", "message"),
    [
        (GO1, EnvConfig(num_envs=1, options=("tracking_lin_vel_scal=2",)), "Did you mean tracking_lin_vel_scale"),
        (GO1, EnvConfig(num_envs=1, options=("noise_level=much",)), "noise_level is a float, like 1.0"),
        (GO1, EnvConfig(num_envs=1, options=("noise_level",)), "lacks a value. Its default is noise_level=1.0"),
        (GO1, EnvConfig(num_envs=1, options=("num_envs=5",)), "num_envs is set by --env.num-envs"),
        (GO1, EnvConfig(num_envs=1, options=("batch_size=1",)), "batch_size is set by --env.num-envs"),
        (GO1, EnvConfig(num_envs=1, options=("max_episode_steps=9",)), "set by --env.max-episode-steps"),
        (GO1, EnvConfig(num_envs=1, options=("seed=7",)), "seed is set by --seed"),
        (
            "gym:Pendulum-v1",
            EnvConfig(num_envs=1, options=("g=1",)),
            "for envpool and genesis, but gym:Pendulum-v1 runs on gymnasium",
        ),
        ("gym:Pendulum-v1", EnvConfig(num_envs=1, history=2), "tell the critic the base's velocity"),
        ("gym:Pendulum-v1", EnvConfig(num_envs=1, blind=True), "Playground's joystick tasks"),
        (GO1, EnvConfig(num_envs=1, history=2, privileged=False), "no-privileged hides it"),
        (toy_envs.make_point, EnvConfig(num_envs=1, history=2), "make_point does not"),
    ],
)
def test_what_cannot_be_shown(task, config, message):
    with pytest.raises(FlashSACError, match=message):
        make_env(task, config)


@pytest.mark.slow
def test_a_run_with_estimator_and_mirror(tmp_path):
    """Trains, is saved, goes on, and its policy takes an observation and what came before it."""
    settings = TINY | dict(
        steps=400,
        env=dict(num_envs=2, history=3, blind=True, max_episode_steps=50),
        agent=TINY["agent"] | dict(symmetry=True),
        checkpoint_every=200,
    )
    result = flashsac.train(GO1, run_dir=str(tmp_path), quiet=True, **settings)
    assert np.isfinite(result.row["eval_return"])
    policy = flashsac.load_policy(tmp_path)
    action = policy({"actor": np.zeros(45), "history": np.zeros(3 * 45)})
    assert action.shape == (12,)
    with pytest.raises(ValueError, match="history is missing"):
        policy({"actor": np.zeros(45)})
    newest = max((tmp_path / "checkpoints").glob("step-*"))
    for file in newest.iterdir():
        file.unlink()
    newest.rmdir()
    assert flashsac.resume(tmp_path, quiet=True).step == 400
