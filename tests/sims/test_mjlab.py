"""mjlab's adapter, on the real simulator."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys

import pytest
import torch

pytest.importorskip("mjlab")

from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError, RenderError, UnknownTask, UnsupportedSpace
from flashsac.sims.catalog import tasks
from flashsac.sims.check import check_env
from flashsac.sims.envs.mjlab import MjlabVecEnv
from flashsac.sims.make import make_env
from tests.helpers import PATIENCE

CARTPOLE = "mjlab:Mjlab-Cartpole-Swingup"
GROUPS = {"actor": ("actor",), "critic": ("critic",)}


def cartpole(change=lambda cfg: None, clip_actions=None):
    """With changes to mjlab's own configuration."""
    import mjlab.tasks  # noqa: F401
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.tasks.registry import load_env_cfg

    cfg = load_env_cfg("Mjlab-Cartpole-Swingup")
    cfg.scene.num_envs = 4
    change(cfg)
    return MjlabVecEnv(ManagerBasedRlEnv(cfg, "cpu"), GROUPS, clip_actions)


def drive(env, steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (env.spec.num_envs, env.spec.action_dim)
    return [env.step(2 * torch.rand(shape, generator=generator) - 1) for _ in range(steps)]


@pytest.mark.parametrize("task", [name for name, task in tasks().items() if task.suite == "mjlab"])
def test_check_env_and_dims(task):
    """Rough ground is among them: its curriculum moves robots about, and must not after a reset with a seed."""
    env = make_env(task, EnvConfig(num_envs=2, max_episode_steps=8))
    known, spec = tasks()[task], env.spec
    assert (spec.obs["actor"], spec.obs.get("critic"), spec.action_dim) == (known.obs, known.critic_obs, known.action)
    assert spec.max_episode_steps == 8
    check_env(env, steps=20)
    env.close()


def test_a_task_that_is_not_in_our_table():
    """Such as other packages register; here our own twin of one of mjlab's."""
    env = make_env(f"{CARTPOLE}-FlashSAC", EnvConfig(num_envs=2, max_episode_steps=8))
    check_env(env, steps=20)
    assert env.spec.obs["actor"] == tasks()[CARTPOLE].obs
    env.close()


def test_final_observation_is_what_the_physics_came_to():
    short, long = (make_env(CARTPOLE, EnvConfig(num_envs=3, max_episode_steps=n)) for n in (5, 50))
    assert torch.equal(short.reset(7)["actor"], long.reset(7)["actor"])
    for i, (cut, whole) in enumerate(zip(drive(short, 5), drive(long, 5), strict=True)):
        assert cut.truncated.all() == (i == 4)
        assert not cut.terminated.any()
        assert torch.equal(cut.final_obs["actor"], whole.obs["actor"])
    assert not torch.equal(cut.obs["actor"], whole.obs["actor"])


def cart_moved(env):
    return env.scene["cartpole"].data.joint_pos[:, 0].abs() > 0.02


def test_termination_is_not_truncation():
    from mjlab.managers.termination_manager import TerminationTermCfg

    def change(cfg):
        cfg.terminations["moved"] = TerminationTermCfg(func=cart_moved)

    env = cartpole(change)
    env.reset(0)
    ended = [step for step in drive(env, 30) if step.terminated.any()]
    assert ended
    assert all(not step.truncated.any() for step in ended)
    assert all((step.final_obs["actor"][step.terminated, 0].abs() > 0.02).all() for step in ended)
    assert all((step.obs["actor"][step.terminated, 0].abs() < 0.02).all() for step in ended), "they were not reset"


def test_time_limit_of_a_finite_horizon_is_an_end():
    def change(cfg):
        cfg.is_finite_horizon, cfg.episode_length_s = True, 0.15

    env = cartpole(change)
    env.reset(0)
    last = drive(env, 3)[-1]
    assert last.terminated.all()
    assert not last.truncated.any()


def test_seeds_of_one_environment_do_not_touch_another_or_the_program():
    alone = make_env(CARTPOLE, EnvConfig(num_envs=3, max_episode_steps=4))
    assert not torch.equal(alone.reset(1)["actor"], alone.reset(2)["actor"])
    alone.reset(1)
    expected = [step.obs["actor"] for step in drive(alone, 8)]
    other = make_env(CARTPOLE, EnvConfig(num_envs=2, max_episode_steps=4))
    state = torch.get_rng_state()
    alone.reset(1)
    seen = []
    for step in drive(alone, 4):
        seen.append(step.obs["actor"])
        other.reset(5)  # as an evaluation between two steps of training would
    assert all(torch.equal(a, b) for a, b in zip(seen, expected, strict=False))
    assert torch.equal(torch.get_rng_state(), state)


def test_startup_randomisation_follows_the_seed():
    env = make_env("mjlab:Mjlab-Velocity-Flat-Unitree-Go1", EnvConfig(num_envs=2))
    friction = []
    for seed in (3, 4, 3):
        env.reset(seed)
        friction.append(env.base.sim.model.geom_friction.clone())
    assert torch.equal(friction[0], friction[2])
    assert not torch.equal(friction[0], friction[1])


def test_actions_keep_their_size_unless_the_task_bounds_them():
    for clip, expected in ((None, 1.0), (3.0, 3.0)):
        env = cartpole(clip_actions=clip)
        env.reset(0)
        for value in (0.5, 1.0, 9.0):
            env.step(torch.full((4, 1), value))
            assert env.base.action_manager.action.flatten().tolist() == [min(value, 1.0) * expected] * 4
        assert env.spec.action_high == (expected,)


def test_info_has_the_reward_terms_and_success():
    env = make_env("mjlab:Mjlab-Lift-Cube-Yam", EnvConfig(num_envs=2))
    env.reset(0)
    step = drive(env, 1)[0]
    terms = [rows for name, rows in step.info.items() if name != "success"]
    assert torch.allclose(torch.stack(terms).sum(0) / env.spec.fps, step.reward, atol=1e-5)
    assert step.info["success"].shape == (2,)
    assert not step.info["success"].any()


def test_picture():
    env = make_env(CARTPOLE, EnvConfig(num_envs=1), render=True)
    env.reset(0)
    before = env.render()
    assert before.ndim == 3
    assert before.shape[2] == 3
    assert before.dtype.name == "uint8"
    assert before.std() > 5, "an empty picture"
    for _ in range(10):
        env.step(torch.ones(1, 1))
    assert (env.render() != before).any()
    env.close()
    with pytest.raises(RenderError, match="render=True"):
        make_env(CARTPOLE, EnvConfig(num_envs=1)).render()


def test_without_a_gl_library(tmp_path):
    """mjlab does not even import. A new process, because a library stays loaded."""
    command = [sys.executable, "-m", "flashsac", "train", CARTPOLE, "--run-dir", "run"]
    environment = {**os.environ, "MUJOCO_GL": "osmesa", "PYOPENGL_PLATFORM": "osmesa"}
    if ctypes.util.find_library("OSMesa"):
        pytest.skip("OSMesa is installed")
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]  # before it mjlab itself complains
    assert last.startswith("error:")
    assert "apt-get install libegl1" in last


def test_what_cannot_work():
    with pytest.raises(UnknownTask, match="Mjlab-Cartpole-Swingup"):
        make_env("mjlab:Mjlab-Cartpole-Swingupp", EnvConfig(num_envs=1))

    with pytest.raises(FlashSACError, match="needs a motion file"):
        make_env("mjlab:Mjlab-Tracking-Flat-Unitree-G1", EnvConfig(num_envs=1))

    def change(cfg):
        cfg.observations["critic"].concatenate_terms = False

    with pytest.raises(UnsupportedSpace, match="concatenated"):
        cartpole(change)
