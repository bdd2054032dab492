"""The JAX engine of suite playground, on the real simulator. Compiling dominates: environments are shared between tests."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

pytest.importorskip("mujoco_playground")

import jax
from mujoco_playground import dm_control_suite
from mujoco_playground import registry as playground_registry
from mujoco_playground._src import mjx_env
from mujoco_playground._src.dm_control_suite import pendulum

from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError, MissingExtra, RenderError
from flashsac.sims.catalog import Task, tasks
from flashsac.sims.check import check_env
from flashsac.sims.envs.playground import make_playground
from flashsac.sims.make import make_env
from flashsac.sims.simulator import EnvRequest

TASKS = [task for task in tasks().values() if task.suite == "playground" and "jax" in task.engines]
LIMIT, NUM_ENVS = 15, 3
LEFT = 0.15
"""Where Toppling ends: the angle."""


class Toppling(pendulum.SwingUp):
    """A real task with what the offline ones lack: an end by failure, a privileged view, repeated actions."""

    def _more(self, state: mjx_env.State) -> mjx_env.State:
        angle = state.data.qpos[0]
        obs = {"state": state.obs, "privileged_state": jax.numpy.append(state.obs, angle)}
        return state.replace(obs=obs, done=(angle > LEFT).astype(float))

    def reset(self, rng):
        state = super().reset(rng)
        start = 0.1 * jax.random.uniform(rng, (1,))
        return self._more(state.replace(data=state.data.replace(qpos=start, qvel=0 * start)))

    def step(self, state, action):
        after = self._more(super().step(state.replace(obs=state.obs["state"]), action))
        return after.replace(reward=1.0 + after.reward * 0)


def toppling_config():
    config = pendulum.default_config()
    config.action_repeat, config.episode_length = 2, 2 * LIMIT
    return config


def task_named(name: str) -> Task:
    return Task("playground", name, 3, 4, 1, ("jax",), name, None, None, "return", None)


@pytest.fixture(scope="module")
def cartpole():
    return make_env("playground:CartpoleBalance", EnvConfig(num_envs=NUM_ENVS, engine="jax", max_episode_steps=LIMIT))


@pytest.fixture(scope="module")
def toppling():
    dm_control_suite.register_environment("Toppling", Toppling, toppling_config)
    return make_playground(task_named("Toppling"), EnvRequest(NUM_ENVS))


def test_check_env(cartpole, toppling):
    check_env(cartpole, steps=40)
    check_env(toppling, steps=40)
    assert cartpole.spec.can_save_state


def test_groups_limits_and_repeated_actions(toppling):
    assert toppling.spec.obs == {"actor": 3, "critic": 4}
    assert toppling.spec.max_episode_steps == LIMIT, "counted in our steps, each of which is two of the simulator's"
    assert toppling.spec.fps == pytest.approx(25.0)
    toppling.reset(0)
    assert (toppling.step(torch.zeros(NUM_ENVS, 1)).reward == 2.0).all(), "the rewards of both repetitions"


def test_an_end_is_not_a_cut_and_final_observations_are_true(toppling):
    """The critic sees the angle: it must be past the end where an episode ended, and before it where it was cut."""
    toppling.reset(0)
    # Gravity pulls from the upright position to the side it leans to; the last one is held back by its motor.
    action = torch.tensor([[1.0], [1.0], [-1.0]])
    ended, cut = torch.zeros(NUM_ENVS), torch.zeros(NUM_ENVS)
    for _ in range(3 * LIMIT):
        step = toppling.step(action)
        ended, cut = ended + step.terminated, cut + step.truncated
        final, now = step.final_obs["critic"][:, 3], step.obs["critic"][:, 3]
        assert torch.equal(step.terminated, final > LEFT)
        over = step.terminated | step.truncated
        assert ((now[over] >= 0) & (now[over] <= 0.1)).all(), "a fresh start"
        assert not (step.terminated & step.truncated).any()
    assert (ended[:2] > 0).all()
    assert cut[2] > 0
    assert ended[2] == 0


def test_every_episode_begins_elsewhere(cartpole):
    """Playground's own autoreset goes back to the first state again and again."""
    first = [cartpole.reset(0)["actor"]]
    for i in range(3 * LIMIT):
        step = cartpole.step(torch.zeros(NUM_ENVS, 1))
        assert step.truncated.tolist() == [i % LIMIT == LIMIT - 1] * NUM_ENVS
        if step.truncated.all():
            first.append(step.obs["actor"])
    starts = torch.cat(first)
    assert len(torch.unique(starts, dim=0)) == len(starts) == 4 * NUM_ENVS


def test_seeds(cartpole):
    first = cartpole.reset(1)["actor"]
    assert torch.equal(first, cartpole.reset(1)["actor"])
    assert not torch.isin(cartpole.reset(2)["actor"][:, 0], first[:, 0]).any()


def test_what_goes_in_and_what_comes_out_belongs_to_the_caller(cartpole):
    cartpole.reset(0)
    action = torch.ones(NUM_ENVS, 1)
    step = cartpole.step(action)
    expected = step.obs["actor"].clone()
    action.zero_()
    for _ in range(3):
        cartpole.step(action)
    assert torch.equal(step.obs["actor"], expected)


def test_actions_are_clipped(cartpole):
    outcomes = []
    for value in (1.0, 100.0):
        cartpole.reset(0)
        outcomes.append(cartpole.step(torch.full((NUM_ENVS, 1), value)).obs["actor"])
    assert torch.equal(*outcomes)


def test_nan_is_marked_invalid_and_the_environment_goes_on(cartpole):
    cartpole.reset(0)
    data = cartpole._state.data
    cartpole._state = cartpole._state.replace(data=data.replace(qpos=data.qpos.at[1].set(float("nan"))))
    step = cartpole.step(torch.zeros(NUM_ENVS, 1))
    assert step.valid.tolist() == [True, False, True]
    assert torch.isfinite(step.obs["actor"]).all()
    assert cartpole.step(torch.zeros(NUM_ENVS, 1)).valid.all()


def test_a_state_of_another_kind_is_not_loaded(cartpole, toppling):
    cartpole.reset(0)
    toppling.reset(0)
    assert not cartpole.load_state_dict(toppling.state_dict())


def test_dims_of_all_offline_tasks_are_true():
    offline = [task for task in TASKS if "envpool" not in task.engines]
    assert {task.own_id for task in offline} == set(dm_control_suite.ALL_ENVS) - {"Toppling"}
    for task in offline:
        spec = make_env(task.full_name, EnvConfig(num_envs=1, engine="jax")).spec
        assert (spec.obs, spec.action_dim) == ({"actor": task.obs}, task.action), task


def test_every_listed_task_is_one_of_playgrounds():
    assert {task.own_id for task in TASKS} <= set(playground_registry.ALL_ENVS)


def test_video_frame(cartpole):
    with pytest.raises(RenderError, match="render=True"):
        cartpole.render()
    env = make_env("playground:CartpoleBalance", EnvConfig(num_envs=1, engine="jax"), render=True)
    env.load_state_dict(env_state(cartpole))
    frame = env.render()
    assert frame.shape == (480, 480, 3)
    assert frame.std() > 5, "a picture, not a plain colour"
    env.close()


def env_state(env):
    """The state of the first environment alone, so that nothing is compiled to draw it."""
    env.reset(0)
    state = env.state_dict()
    return {
        "parts": [part[:1] for part in state["parts"]],
        "key": state["key"],
        "elapsed": state["elapsed"][:1],
    }


@pytest.mark.skipif(
    mjx_env.MENAGERIE_PATH.exists(), reason="the robot models were fetched before, so nothing can go wrong"
)
def test_a_robot_whose_model_cannot_be_fetched(monkeypatch):
    monkeypatch.setitem(os.environ, "PATH", "")  # no git, no network
    with pytest.raises(FlashSACError, match="EnvPool"):
        make_env("playground:Go1JoystickFlatTerrain", EnvConfig(num_envs=1, engine="jax"))


@pytest.mark.skipif(any(device.platform == "gpu" for device in jax.devices()), reason="JAX sees a GPU here")
def test_a_gpu_that_jax_does_not_see():
    with pytest.raises(MissingExtra, match="jax\\[cuda12\\]"):
        make_playground(task_named("PendulumSwingup"), EnvRequest(1, device="cuda"))


def test_arrays_are_plain_in_a_saved_state(cartpole):
    cartpole.reset(0)
    assert all(isinstance(part, np.ndarray) for part in cartpole.state_dict()["parts"])
