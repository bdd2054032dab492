"""Every adapter keeps the contract, on the real simulator."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
import torch

from flashsac.config.schema import EnvConfig
from flashsac.errors import BadSimulation, FlashSACError, MissingExtra, UnknownTask, UnsupportedSpace
from flashsac.sims.catalog import tasks
from flashsac.sims.check import check_env
from flashsac.sims.make import make_env
from flashsac.sims.registry import simulators
from tests import toy_envs

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("task", "num_envs", "engine"),
    [
        ("mujoco:HalfCheetah-v4", 3, "envpool"),
        ("mujoco:Hopper-v4", 4, "envpool"),
        ("mujoco:Hopper-v4", 2, "gymnasium"),
        ("mujoco:Humanoid-v4", 1, "gymnasium"),
        ("dmc:humanoid-walk", 2, "envpool"),
        ("dmc:cartpole-balance", 2, "dm_control"),
        ("dmc:reacher-easy", 1, "dm_control"),
        ("playground:G1JoystickFlatTerrain", 2, "envpool"),
        ("playground:Go1JoystickFlatTerrain", 2, "envpool"),
        ("myosuite:myo-reach", 2, "envpool"),
        ("myosuite:myo-pen-twirl-hard", 1, "envpool"),
        ("myosuite:myo-reach", 2, "gymnasium"),
        ("metaworld:Reach-v3", 2, "envpool"),
        ("metaworld:ButtonPressTopdownWall-v3", 2, "gymnasium"),
        ("robotics:FetchReachDense-v4", 2, "envpool"),
        ("robotics:HandManipulateBlock-v1", 2, "envpool"),
        ("robotics:AdroitHandDoor-v1", 2, "envpool"),
        ("robotics:AdroitHandDoor-v1", 2, "gymnasium"),
        ("gym:Pendulum-v1", 3, "gymnasium"),
    ],
)
def test_check_env(task, num_envs, engine):
    package = simulators()[engine].packages[task.split(":")[0]]
    if not package.installed:
        pytest.skip(f"{package.module} is not installed here")
    env = make_env(task, EnvConfig(num_envs=num_envs, engine=engine, max_episode_steps=15))
    check_env(env, steps=40)
    known = tasks()[task]
    assert env.spec.obs["actor"] == known.obs
    assert env.spec.obs.get("critic") == known.critic_obs
    assert env.spec.action_dim == known.action
    assert env.spec.can_save_state == (engine != "envpool")
    env.close()


@pytest.mark.parametrize(
    "task", [task for task in tasks().values() if task.normal is not None], ids=lambda t: t.full_name
)
def test_dims_are_the_papers(task):
    """tasks.csv holds the paper's tables; this holds the simulators to them."""
    try:
        env = make_env(task.full_name, EnvConfig(num_envs=1, overlap=False))
    except MissingExtra:
        pytest.skip("its simulator is not installed here")
    seen = math.prod(env.spec.pixels.shape) if env.spec.pixels else env.spec.obs["actor"]
    assert (seen, env.spec.obs.get("critic"), env.spec.action_dim) == (task.obs, task.critic_obs, task.action)
    env.close()


@pytest.mark.parametrize("task", ["myosuite:myo-reach", "metaworld:Reach-v3", "robotics:FetchReachDense-v4"])
def test_success_has_one_name(task):
    env = make_env(task, EnvConfig(num_envs=2, engine="envpool"))
    env.reset(0)
    success = env.step(torch.zeros(2, env.spec.action_dim)).info["success"]
    assert np.shape(success) == (2,)
    env.close()


@pytest.mark.parametrize("name", ["PointEnv", "Privileged"])
def test_check_env_on_a_users_own(name):
    check_env(make_env(getattr(toy_envs, name), EnvConfig(num_envs=3)))


class BrokenEnv:
    """Wraps a good environment and breaks one promise of the contract."""

    def __init__(self, fault: str):
        self.env, self.fault = make_env(toy_envs.make_point, EnvConfig(num_envs=2)), fault
        self.spec = self.env.spec
        self.buffer, self.flags = torch.zeros(2, 2), torch.zeros(2, dtype=torch.bool)
        self.count = 0

    def reset(self, seed):
        self.count += 1
        return self.env.reset(self.count if self.fault == "seed" else seed)

    def step(self, action):
        step = self.env.step(action)
        if self.fault == "final":
            return step._replace(final_obs=step.obs)
        if self.fault == "one final":
            final = step.final_obs["actor"].clone()
            final[1] = step.obs["actor"][1]
            return step._replace(final_obs={"actor": final})
        if self.fault == "reuse":
            self.buffer.copy_(step.obs["actor"])
            return step._replace(obs={"actor": self.buffer})
        if self.fault == "flags":
            self.flags.copy_(step.truncated)
            return step._replace(truncated=self.flags)
        if self.fault == "dtype":
            return step._replace(reward=step.reward.double())
        return step

    def state_dict(self):
        return self.env.state_dict()

    def load_state_dict(self, state):
        return self.env.load_state_dict(state)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("seed", "same seed"),
        ("final", r"final_obs of environment \[0\] is its reset observation"),
        ("one final", r"final_obs of environment \[1\] is its reset observation"),
        ("reuse", r"the buffer of step.obs\['actor'\] is reused"),
        ("flags", "the buffer of step.truncated is reused"),
        ("dtype", "float64"),
    ],
)
def test_check_env_finds_faults(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_env(BrokenEnv(fault))


def test_check_env_says_what_it_could_not_see():
    with pytest.warns(UserWarning, match="no episode ended within 10 steps"):
        check_env(make_env(toy_envs.make_point, EnvConfig(num_envs=2)), steps=10)


def test_all_listed_dims_of_envpool_tasks_are_true():
    """The table was written by a script; a new version of a simulator must not make it a lie."""
    for task in tasks().values():
        if "envpool" in task.engines:
            spec = make_env(task.full_name, EnvConfig(num_envs=1, engine="envpool")).spec
            assert (spec.obs["actor"], spec.obs.get("critic"), spec.action_dim) == (
                task.obs,
                task.critic_obs,
                task.action,
            ), task


@pytest.mark.parametrize(
    ("task", "dims"),
    [
        ("mujoco:HalfCheetah-v4", (17, None, 6)),
        ("mujoco:Hopper-v4", (11, None, 3)),
        ("mujoco:Walker2d-v4", (17, None, 6)),
        ("mujoco:Ant-v4", (27, None, 8)),
        ("mujoco:Humanoid-v4", (376, None, 17)),
        ("dmc:cartpole-balance_sparse", (5, None, 1)),
        ("dmc:humanoid-run", (67, None, 21)),
        ("dmc:dog-run", (223, None, 38)),
        ("playground:G1JoystickFlatTerrain", (103, 216, 29)),
        ("playground:T1JoystickFlatTerrain", (85, 180, 23)),
    ],
)
def test_dims_of_the_paper(task, dims):
    known = tasks()[task]
    assert (known.obs, known.critic_obs, known.action) == dims


def test_envpool_steps_are_all_transitions_even_when_every_episode_ends_together():
    env = make_env("mujoco:HalfCheetah-v4", EnvConfig(num_envs=3, engine="envpool", max_episode_steps=4))
    env.reset(0)
    ends = []
    for _ in range(12):
        step = env.step(torch.ones(3, 6))
        assert (step.reward != 0).all(), "a swallowed step has no reward"
        ends.append(step.truncated.tolist())
    assert ends == [[i % 4 == 3] * 3 for i in range(12)]


@pytest.mark.parametrize(
    ("task", "engine"),
    [
        ("mujoco:HalfCheetah-v4", "envpool"),
        ("playground:Go1JoystickFlatTerrain", "envpool"),
        ("dmc:cartpole-balance", "envpool"),
        ("mujoco:HalfCheetah-v4", "gymnasium"),
        ("dmc:cartpole-balance", "dm_control"),
    ],
)
def test_final_observations_are_what_physics_came_to(task, engine):
    """The same episode with and without the cut: neither the step before the last nor the next episode passes for its end."""
    cut, whole = (make_env(task, EnvConfig(num_envs=2, engine=engine, max_episode_steps=n)) for n in (5, 50))
    for env in (cut, whole):
        env.reset(3)
    action = torch.full((2, cut.spec.action_dim), 0.3)
    for _ in range(4):
        before = cut.step(action)
        whole.step(action)
    last, unbroken = cut.step(action), whole.step(action)
    assert last.truncated.all()
    assert not last.terminated.any()
    for group, rows in unbroken.obs.items():
        assert torch.equal(last.final_obs[group], rows), group
        assert (last.obs[group] != rows).any(1).all(), group
        assert (before.obs[group] != rows).any(1).all(), "nothing moved"


def test_termination_is_not_truncation():
    env = make_env("mujoco:Hopper-v4", EnvConfig(num_envs=4, engine="envpool", max_episode_steps=1000))
    env.reset(0)
    terminated = sum(step.terminated.sum().item() for step in (env.step(torch.rand(4, 3) * 2 - 1) for _ in range(200)))
    assert terminated > 0
    pendulum = make_env("gym:Pendulum-v1", EnvConfig(num_envs=1))
    pendulum.reset(0)
    last = [pendulum.step(torch.zeros(1, 1)) for _ in range(200)][-1]
    assert last.truncated.all()
    assert not last.terminated.any()


@pytest.mark.parametrize("limit", [None, 1100])
def test_dm_controls_time_limit_is_no_termination_and_can_be_raised(limit):
    env = make_env("dmc:cartpole-balance", EnvConfig(num_envs=1, engine="dm_control", max_episode_steps=limit))
    length = limit or 1000
    assert env.spec.max_episode_steps == length
    env.reset(0)
    steps = [env.step(torch.zeros(1, 1)) for _ in range(length)]
    assert [bool(step.truncated) for step in steps] == [False] * (length - 1) + [True]
    assert not any(step.terminated.any() for step in steps)


def test_engines_share_the_observation_order():
    """The same state, the same numbers: a policy trained on one engine runs on the other."""
    envs = [
        make_env("dmc:humanoid-walk", EnvConfig(num_envs=n, engine=e)) for n, e in ((64, "envpool"), (16, "dm_control"))
    ]
    means = [env.reset(0)["actor"].mean(0) for env in envs]
    assert (means[0] - means[1]).abs().mean() < 0.15
    assert np.corrcoef(means[0], means[1])[0, 1] > 0.95


def test_actions_are_rescaled_to_the_bounds():
    class Recording(toy_envs.PointEnv):
        seen: list = []

        def step(self, action):
            self.seen.append(action.copy())
            return super().step(action)

    env = make_env(lambda: Recording(low=-3.0, high=5.0), EnvConfig(num_envs=1))
    env.reset(0)
    for value in (-1.0, 0.0, 1.0, 7.0):
        env.step(torch.full((1, 2), value))
    assert [a.tolist() for a in Recording.seen] == [[-3, -3], [1, 1], [5, 5], [5, 5]]


def test_nan_is_marked_invalid_and_the_environment_goes_on():
    env = make_env(toy_envs.make_nan, EnvConfig(num_envs=8))
    env.reset(0)
    steps = [env.step(torch.zeros(8, 2)) for _ in range(50)]
    assert any(not step.valid.all() for step in steps)
    assert all(torch.isfinite(step.obs["actor"]).all() for step in steps)


def test_unreproducible_environment_says_so():
    env = make_env(toy_envs.Forgetful, EnvConfig(num_envs=1))
    env.reset(0)
    env.step(torch.zeros(1, 2))
    assert env.load_state_dict(env.state_dict()) is False


def test_an_environment_object():
    env = make_env(toy_envs.PointEnv(), EnvConfig(num_envs=1))
    assert env.reset(0)["actor"].shape == (1, 2)
    with pytest.raises(FlashSACError, match="one environment"):
        make_env(toy_envs.PointEnv(), EnvConfig(num_envs=2))


def test_unknown_task_names_the_nearest():
    with pytest.raises(UnknownTask, match="mujoco:HalfCheetah-v4"):
        make_env("mujoco:HalfCheetha-v4", EnvConfig())
    with pytest.raises(UnknownTask, match="flashsac list"):
        make_env("nothing", EnvConfig())
    with pytest.raises(UnknownTask, match="gym:Pendulum-v1"):
        make_env("gym:Pendulun-v1", EnvConfig(num_envs=1))


def test_missing_extra_names_the_install_line(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r'pip install "flashsac\[envpool\]"'):
        make_env("playground:G1JoystickFlatTerrain", EnvConfig(num_envs=2))


def test_spaces_that_cannot_work():
    with pytest.raises(UnsupportedSpace, match="continuous control"):
        make_env("gym:CartPole-v1", EnvConfig(num_envs=1))
    with pytest.raises(UnsupportedSpace, match="unbounded"):
        make_env(toy_envs.Unbounded, EnvConfig(num_envs=1))


def test_mujoco_without_its_package(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("mujoco", "envpool") else real(name))
    with pytest.raises(MissingExtra, match=r'pip install "flashsac\[mujoco\]"'):
        make_env("mujoco:Hopper-v4", EnvConfig(num_envs=1))


def test_environment_that_a_package_registers(tmp_path, monkeypatch):
    (tmp_path / "my_package.py").write_text(
        "import gymnasium\ngymnasium.register('MyPoint-v0', entry_point='tests.toy_envs:PointEnv', max_episode_steps=9)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert make_env("gym:my_package:MyPoint-v0", EnvConfig(num_envs=1)).spec.max_episode_steps == 9


def test_time_limit_on_a_users_own_environment():
    env = make_env(toy_envs.make_point, EnvConfig(num_envs=1, max_episode_steps=5))
    env.reset(0)
    assert [bool(env.step(torch.zeros(1, 2)).truncated) for _ in range(5)] == [False] * 4 + [True]


def test_nan_at_reset_is_an_error():
    class Broken(toy_envs.PointEnv):
        def reset(self, **kwargs):
            obs, info = super().reset(**kwargs)
            return obs * np.nan, info

    with pytest.raises(BadSimulation, match="right after a reset"):
        make_env(Broken, EnvConfig(num_envs=1)).reset(0)


def test_overflow_to_float32_is_invalid():
    class Exploding(toy_envs.PointEnv):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return (obs, 1e39, *rest)

    env = make_env(Exploding, EnvConfig(num_envs=1))
    env.reset(0)
    assert not env.step(torch.zeros(1, 2)).valid.any()


def test_wrong_observation_shape():
    env = make_env(toy_envs.WrongShape, EnvConfig(num_envs=1))
    env.reset(0)
    with pytest.raises(BadSimulation, match=r"shape \(3,\)"):
        env.step(torch.zeros(1, 2))


def test_engine_that_does_not_have_the_task():
    with pytest.raises(FlashSACError, match="runs on"):
        make_env("playground:G1JoystickFlatTerrain", EnvConfig(num_envs=2, engine="gymnasium"))


@pytest.mark.parametrize("suite", ["mujoco", "dmc"])
def test_envpool_is_as_fast_as_the_simulator_it_copies(suite):
    """In simulated time: its videos would otherwise run at another speed."""
    seen = set()
    for name, task in tasks().items():
        engine = {"mujoco": "gymnasium", "dmc": "dm_control"}[suite]
        kind = task.name.split("-")[0]
        if task.suite != suite or kind in seen or not {"envpool", engine} <= set(task.engines):
            continue
        seen.add(kind)
        fps = [make_env(name, EnvConfig(num_envs=1, engine=each)).spec.fps for each in ("envpool", engine)]
        assert fps[0] == pytest.approx(fps[1], rel=0.01), name
    assert len(seen) > 10
