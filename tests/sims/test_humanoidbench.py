"""The HumanoidBench adapter against a package of that name with the documented conventions; the real one is not on PyPI."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest
import torch

from flashsac.config.schema import EnvConfig
from flashsac.errors import MissingExtra, UnknownTask
from flashsac.sims.catalog import tasks
from flashsac.sims.check import check_env
from flashsac.sims.make import make_env

TASKS = [task for task in tasks().values() if task.suite == "humanoidbench"]


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "humanoid_bench"
    folder.mkdir()
    (folder / "__init__.py").write_text("import tests.sims.fake_humanoid_bench\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "humanoid_bench", raising=False)
    yield
    sys.modules.pop("humanoid_bench", None)


def make(name: str, num_envs: int = 2, **options):
    return make_env(f"humanoidbench:{name}", EnvConfig(num_envs=num_envs, **options))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_check_env(package, task):
    env = make(task.name, max_episode_steps=15)
    check_env(env, steps=40)
    assert (env.spec.obs, env.spec.action_dim) == ({"actor": task.obs}, task.action) == ({"actor": task.obs}, 19)
    assert env.spec.fps == 50
    env.close()


def test_there_are_the_14_tasks_of_the_paper():
    assert len(TASKS) == 14


def test_others_are_made_by_the_packages_own_name(package):
    env = make("h1-package-v0")
    assert env.spec.obs == {"actor": 63}
    env.close()
    with pytest.raises(UnknownTask, match="Did you mean humanoidbench:h1-package-v0"):
        make("h1-pakage-v0")


def test_time_limit_and_fall(package):
    env = make("h1-walk-v0", 1)
    assert env.spec.max_episode_steps == 1000
    env.reset(0)
    still = [env.step(torch.zeros(1, 19)) for _ in range(1000)]
    assert [bool(step.truncated) for step in still] == [False] * 999 + [True]
    assert not any(step.terminated for step in still)
    falling = [env.step(torch.ones(1, 19)) for _ in range(16)]
    assert [bool(step.terminated) for step in falling] == [False] * 15 + [True]
    assert falling[-1].final_obs["actor"][0, 2] < 0.2
    assert falling[-1].obs["actor"][0, 2] > 0.9


@pytest.mark.parametrize("name", ["h1-reach-v0", "h1-sit_hard-v0"])
def test_the_seed_decides_what_is_drawn_from_numpys_global_generator(package, name):
    env = make(name, 3)
    np.random.seed(1)
    first = env.reset(5)["actor"]
    np.random.seed(2)
    assert torch.equal(env.reset(5)["actor"], first)
    assert not torch.equal(env.reset(6)["actor"][:, -3:], first[:, -3:])
    assert len({tuple(row.tolist()) for row in first[:, -3:]}) == 3, "each environment has its own target"
    np.random.seed(2)
    expected = np.random.random()
    np.random.seed(2)
    env.reset(5)
    assert np.random.random() == expected, "the global generator belongs to others"


def test_a_resumed_episode_has_the_same_successors(package):
    """Later episodes are drawn without a seed, and must come again after loading."""
    env = make("h1-reach-v0", 2, max_episode_steps=3)
    env.reset(0)
    for _ in range(4):
        env.step(torch.zeros(2, 19))
    state = env.state_dict()
    ahead = [env.step(torch.zeros(2, 19)).obs["actor"] for _ in range(5)]
    np.random.seed(77)
    assert env.load_state_dict(state)
    again = [env.step(torch.zeros(2, 19)).obs["actor"] for _ in range(5)]
    assert all(torch.equal(*pair) for pair in zip(ahead, again, strict=True))


def test_terms_of_the_reward_come_in_info(package):
    env = make("h1-maze-v0", 2)
    env.reset(0)
    step = env.step(torch.zeros(2, 19))
    assert np.allclose(step.info["stand_reward"], step.reward)
    assert step.info["success_subtasks"].shape == (2,)


def test_video_frame(package):
    env = make_env("humanoidbench:h1-walk-v0", EnvConfig(num_envs=1), render=True)
    env.reset(0)
    assert env.render().shape == (256, 256, 3)


def test_a_package_without_the_task(tmp_path, monkeypatch):
    import gymnasium

    (tmp_path / "humanoid_bench.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "humanoid_bench", raising=False)
    monkeypatch.delitem(gymnasium.registry, "h1-walk-v0", raising=False)
    with pytest.raises(UnknownTask, match=r"h1-walk-v0: .* no such task.*humanoidbench\.md"):
        make("h1-walk-v0")
    sys.modules.pop("humanoid_bench", None)


def test_without_the_package(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="repository's instructions"):
        make("h1-walk-v0")
