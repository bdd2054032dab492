"""The Isaac Lab adapter against a stand-in with the documented conventions (fakes.py); the real one needs NVIDIA's GPU."""

from __future__ import annotations

import importlib.util
import os
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

import flashsac
from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError, MissingExtra, RenderError, UnknownTask, UnsupportedSpace
from flashsac.runs.metrics import read_metrics
from flashsac.sims.catalog import tasks
from flashsac.sims.check import check_env
from flashsac.sims.envs import isaaclab
from flashsac.sims.envs.isaaclab import IsaacLabVecEnv
from flashsac.sims.make import make_env, must_evaluate_apart
from tests.helpers import ROOT, TINY
from tests.sims import fakes

MANAGED, DIRECT = (f"isaaclab:{name}" for name in fakes.TASKS)


@pytest.fixture(autouse=True)
def _installed(tmp_path, monkeypatch):
    for name, content in fakes.PACKAGES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in [name for name in sys.modules if name.split(".")[0] in ("isaaclab", "isaaclab_tasks")]:
        monkeypatch.delitem(sys.modules, module)
    isaaclab._launch.cache_clear()
    for name, value in dict(launched=0, context=None, new_version=True, history=False, args_of_compute=True).items():
        monkeypatch.setattr(fakes.WORLD, name, value)
    yield
    for module in [name for name in sys.modules if name.split(".")[0] in ("isaaclab", "isaaclab_tasks")]:
        del sys.modules[module]


def make(task=MANAGED, num_envs=3, **options):
    return make_env(task, EnvConfig(num_envs=num_envs, **options))


@pytest.mark.parametrize("new", [True, False], ids=["final_obs", "captured"])
@pytest.mark.parametrize("task", [MANAGED, DIRECT], ids=["manager", "direct"])
def test_check_env(task, new, monkeypatch):
    monkeypatch.setattr(fakes.WORLD, "new_version", new)
    env = make(task, max_episode_steps=15)
    check_env(env, steps=40)
    known = tasks()[task]
    assert (env.spec.obs, env.spec.action_dim) == ({"actor": known.obs}, known.action)
    assert env.spec.max_episode_steps == 15
    assert env.spec.fps == 50
    env.close()


@pytest.mark.parametrize("new", [True, False], ids=["final_obs", "captured"])
@pytest.mark.parametrize("task", [MANAGED, DIRECT], ids=["manager", "direct"])
def test_final_observations_are_those_before_the_reset(task, new, monkeypatch):
    monkeypatch.setattr(fakes.WORLD, "new_version", new)
    env = make(task, max_episode_steps=7)
    assert env.spec.max_episode_steps == 7, "0.14 s / 0.02 s is a little more than 7"
    shift = 3.0 if task == DIRECT else 0.0  # the noise that DirectRLEnv.step adds
    position, clock = slice(0, env.spec.action_dim), env.spec.action_dim
    before = env.reset(0)["actor"] - shift
    action = torch.zeros(3, env.spec.action_dim)
    action[1, 0] = 1.0  # leaves the field in its fifth or sixth step; the others run out of time
    kinds = set()
    for _ in range(60):
        step = env.step(action)
        final, now = step.final_obs["actor"] - shift, step.obs["actor"] - shift
        assert torch.allclose(final[:, position], before[:, position] + 0.1 * action, atol=1e-5)
        assert torch.allclose(final[:, clock], before[:, clock] + 1, atol=1e-5)
        ended = step.terminated | step.truncated
        assert (now[ended, clock].abs() < 1e-5).all(), "the next episode has begun"
        kinds |= {(i, "end") for i in step.terminated.nonzero().flatten().tolist()}
        kinds |= {(i, "cut") for i in step.truncated.nonzero().flatten().tolist()}
        before = now
    assert kinds == {(0, "cut"), (1, "end"), (2, "cut")}


def test_a_reset_of_all_is_no_end_of_an_episode(monkeypatch):
    """Isaac Lab's own reset goes through _reset_idx too: nothing may be kept from there."""
    monkeypatch.setattr(fakes.WORLD, "new_version", False)
    env = make()
    env.reset(0)
    looks = env.lab.observation_manager.looks
    env.reset(1)
    assert env.lab.observation_manager.looks == looks + 1


def test_looking_does_not_count_as_a_step_for_the_history(monkeypatch):
    monkeypatch.setattr(fakes.WORLD, "new_version", False)
    monkeypatch.setattr(fakes.WORLD, "history", True)
    env = make(max_episode_steps=3)
    env.reset(0)
    for _ in range(9):
        env.step(torch.zeros(3, 12))
    assert env.lab.observation_manager.recorded == 10


def test_where_looking_would_count_as_a_step_it_is_said(monkeypatch):
    for name, value in dict(new_version=False, history=True, args_of_compute=False).items():
        monkeypatch.setattr(fakes.WORLD, name, value)
    with pytest.raises(FlashSACError, match="observation history"):
        make()


def test_an_old_version_without_history_works(monkeypatch):
    for name, value in dict(new_version=False, args_of_compute=False).items():
        monkeypatch.setattr(fakes.WORLD, name, value)
    check_env(make(max_episode_steps=15), steps=40)


def test_the_critics_terms_side_by_side_in_the_simulators_order():
    make().close()
    config = fakes.parse_env_cfg(MANAGED.split(":")[1], device="cpu", num_envs=3)
    env = IsaacLabVecEnv(gymnasium.make(MANAGED.split(":")[1], cfg=config))  # a user's own: all groups are shown
    assert env.spec.obs == {"actor": 48, "critic": 13}
    check_env(env, steps=40)
    env.reset(0)
    step = env.step(torch.ones(3, 12))
    assert torch.equal(step.obs["critic"][:, :12], env.lab.position)
    assert (step.obs["critic"][:, 12] == 1).all()


@pytest.mark.parametrize("fixed", [True, False])
def test_a_task_of_fixed_length_ends_for_good_when_its_time_is_up(fixed):
    make().close()
    config = fakes.parse_env_cfg(MANAGED.split(":")[1], device="cpu", num_envs=3)
    config.is_finite_horizon, config.episode_length_s = fixed, 0.05  # three steps
    env = IsaacLabVecEnv(gymnasium.make(MANAGED.split(":")[1], cfg=config))
    env.reset(0)
    steps = [env.step(torch.zeros(3, 12)) for _ in range(3)]
    assert [step.terminated.tolist() for step in steps] == [[False] * 3] * 2 + [[fixed] * 3]
    assert steps[-1].truncated.all()


def test_what_is_drawn_while_building_is_the_same_every_time():
    grounds = []
    for outside in (1, 2):
        torch.manual_seed(outside)
        env = make()
        grounds.append(env.lab.terrain)
        env.close()
    assert torch.equal(*grounds)


def test_nan_is_marked_invalid_and_the_environment_is_reset():
    env = make()
    env.reset(0)
    env.lab.broken = [1]
    step = env.step(torch.zeros(3, 12))
    assert step.valid.tolist() == [True, False, True]
    assert torch.isfinite(step.obs["actor"]).all()
    assert step.obs["actor"][:, 12].tolist() == [1, 0, 1], "only the broken one began anew"
    assert env.step(torch.zeros(3, 12)).valid.all()


def test_actions_reach_the_simulator_unscaled_where_it_has_no_bounds_and_scaled_where_it_has():
    env = make()
    env.reset(0)
    env.step(torch.full((3, 12), 7.0))
    assert (env.lab.received == 1).all()
    env.close()
    config = fakes.parse_env_cfg(MANAGED.split(":")[1], device="cpu", num_envs=3)
    lab = gymnasium.make(MANAGED.split(":")[1], cfg=config)
    lab.unwrapped.single_action_space = Box(-2.0, 4.0, (12,))
    bounded = IsaacLabVecEnv(lab)
    bounded.reset(0)
    bounded.step(torch.full((3, 12), -1.0))
    assert (bounded.lab.received == -2).all()


def test_isaac_sim_is_started_once_and_does_not_read_our_arguments(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["flashsac", "train", "--steps", "5"])
    make().close()
    make().close()
    assert fakes.WORLD.launched == 1
    assert fakes.WORLD.arguments == ["flashsac"]
    assert sys.argv == ["flashsac", "train", "--steps", "5"]


def test_one_environment_in_a_process():
    first = make()
    with pytest.raises(FlashSACError, match="one environment in a process"):
        make()
    first.close()
    make().close()
    assert must_evaluate_apart(MANAGED, EnvConfig())


@pytest.mark.slow
def test_training_evaluates_in_another_process(tmp_path, monkeypatch):
    paths = [str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))  # Isaac Lab is installed for the child too
    env = dict(num_envs=2, max_episode_steps=20)
    flashsac.train(MANAGED, run_dir=str(tmp_path / "run"), device="cpu", quiet=True, **TINY | {"env": env})
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert sum(np.isfinite(row.get("eval_return", np.nan)) for row in rows) == 3
    assert rows[-1]["eval_length"] <= 20


def test_video_frame():
    env = make()
    env.reset(0)
    with pytest.raises(RenderError, match="render=True"):
        env.render()
    env.close()
    isaaclab._launch.cache_clear()
    env = make_env(MANAGED, EnvConfig(num_envs=1), render=True)
    env.reset(0)
    assert env.render().shape == (720, 1280, 3)


def test_images_are_refused():
    make().close()
    config = fakes.parse_env_cfg(MANAGED.split(":")[1], device="cpu", num_envs=3)
    lab = gymnasium.make(MANAGED.split(":")[1], cfg=config)
    lab.unwrapped.single_observation_space = Dict({"policy": Dict({"camera": Box(0, 255, (3, 64, 64))})})
    with pytest.raises(UnsupportedSpace, match=r"policy/camera' is an image \(3, 64, 64\)"):
        IsaacLabVecEnv(lab)


def test_several_agents_are_refused():
    make().close()
    config = fakes.parse_env_cfg(MANAGED.split(":")[1], device="cpu", num_envs=3)
    lab = gymnasium.make(MANAGED.split(":")[1], cfg=config)
    del lab.unwrapped.single_observation_space  # those of several agents have dicts of spaces, by other names
    with pytest.raises(UnsupportedSpace, match="multi_agent_to_single_agent"):
        IsaacLabVecEnv(lab)


@pytest.mark.slow
def test_a_task_that_is_not_in_our_table_trains_by_its_own_name(tmp_path):
    """With what the simulator offers the critic; and evaluated apart, like all of Isaac Lab's."""
    (name,) = fakes.UNLISTED
    task = f"isaaclab:{name}"
    assert task not in tasks()
    env = make(task, max_episode_steps=15)
    assert env.spec.obs == {"actor": 48, "critic": 13}
    check_env(env, steps=40)
    env.close()
    assert must_evaluate_apart(task, EnvConfig())
    settings = TINY | dict(steps=200, env=dict(num_envs=2, max_episode_steps=20), eval=dict(every=0), device="cpu")
    result = flashsac.train(task, run_dir=str(tmp_path / "run"), quiet=True, **settings)
    assert flashsac.load_policy(result.run_dir).named_task() == task


def test_a_task_that_this_version_lacks():
    with pytest.raises(UnknownTask, match="no such task"):
        make("isaaclab:Isaac-Velocity-Flat-H1-v0")
    with pytest.raises(UnknownTask, match="Did you mean isaaclab:Isaac-Velocity-Flat-Unitree-Go2-v0"):
        make("isaaclab:Isaac-Velocity-Flat-Unitre-Go2-v0")


def test_without_isaac_lab(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="NVIDIA"):
        make()
