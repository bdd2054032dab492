"""ManiSkill, the real thing, on its CPU physics."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("mani_skill")

from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError, MissingExtra, UnknownTask
from flashsac.runs.metrics import read_metrics
from flashsac.sims.catalog import tasks
from flashsac.sims.check import check_env
from flashsac.sims.envs.maniskill import BatchedManiSkill, ManiSkillEnv
from flashsac.sims.make import make_env
from flashsac.sims.simulator import EnvRequest
from flashsac.sims.vector.workers import WorkerVecEnv
from tests.helpers import PATIENCE, environment, tiny_run

OURS = [task for task in tasks().values() if task.suite == "maniskill"]
NEEDS_DOWNLOAD = "PickSingleYCB-v1"


@pytest.fixture(scope="module")
def pull_cube():
    env = make_env("maniskill:PullCube-v1", EnvConfig(num_envs=2))
    yield env
    env.close()


@pytest.mark.parametrize(
    ("name", "obs"),
    [
        ("PullCube-v1", 35),
        ("RollBall-v1", 44),
        ("LiftPegUpright-v1", 32),
        ("PokeCube-v1", 54),
        ("PegInsertionSide-v1", 43),
    ],
)
def test_check_env_on_the_papers_tasks(name, obs):
    """Rebuilding the scene (PegInsertionSide does at every reset) must not cost reproducibility, nor exact resume."""
    env = make_env(f"maniskill:{name}", EnvConfig(num_envs=2, max_episode_steps=12))
    try:
        assert isinstance(env, WorkerVecEnv)
        assert (env.spec.obs, env.spec.action_dim, env.spec.max_episode_steps) == ({"actor": obs}, 8, 12)
        check_env(env, steps=30)
    finally:
        env.close()


@pytest.mark.parametrize("task", [task for task in OURS if task.own_id != NEEDS_DOWNLOAD], ids=lambda task: task.name)
def test_all_listed_dims_are_true_and_random_actions_run(task):
    env = ManiSkillEnv(task.own_id, EnvRequest(1))
    try:
        assert (env.spec.obs, env.spec.action_dim) == ({"actor": task.obs}, task.action)
        assert env.reset(0)["actor"].shape == (task.obs,)
        for action in np.random.default_rng(0).uniform(-1, 1, (3, task.action)).astype(np.float32):
            obs, reward, terminated, _, info = env.step(action)
            assert np.isfinite(obs["actor"]).all()
            assert np.isfinite(reward)
            assert not terminated
            assert ("success" in info) == (task.metric == "success")
    finally:
        env.close()


def test_episodes_end_by_time_alone_with_true_final_observations(pull_cube):
    pull_cube.reset(0)
    steps = [pull_cube.step(torch.zeros(2, 8)) for _ in range(50)]
    assert [step.truncated.tolist() for step in steps] == [[False] * 2] * 49 + [[True] * 2]
    assert not any(step.terminated.any() for step in steps)
    cube = slice(28, 31)  # the last seven numbers are its pose: left alone it stays where it is, until the next episode
    last = steps[-1]
    assert torch.allclose(last.final_obs["actor"][:, cube], steps[-2].obs["actor"][:, cube], atol=1e-4)
    assert (last.obs["actor"][:, cube] - last.final_obs["actor"][:, cube]).abs().max() > 1e-3


def test_success_does_not_end_an_episode():
    """Put the cube where it belongs: success, the full reward, and the episode goes on."""
    env = ManiSkillEnv("PullCube-v1", EnvRequest(1))
    env.reset(0)
    assert not env.step(np.zeros(8, np.float32))[-1]["success"]
    base = env._env
    base.obj.set_pose(base.goal_region.pose)
    _, reward, terminated, truncated, info = env.step(np.zeros(8, np.float32))
    assert info["success"] is True
    assert reward == 1.0  # the top of normalized_dense
    assert not terminated
    assert not truncated
    env.close()


def test_seeds(pull_cube):
    first, second, third = (pull_cube.reset(seed)["actor"] for seed in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert not torch.equal(first[0], first[1]), "two environments with the same episode"
    torch.manual_seed(0)
    pull_cube.reset(3)
    for _ in range(50):
        begun = pull_cube.step(torch.zeros(2, 8)).obs["actor"]
    assert not torch.equal(begun, first), "the second episode repeats the first"


def test_actions_move_joints_by_deltas(pull_cube):
    pull_cube.reset(0)
    before = pull_cube.step(torch.zeros(2, 8)).obs["actor"]
    action = torch.zeros(2, 8)
    action[0, 0] = 1.0  # the first joint of the first robot
    moved = pull_cube.step(action).obs["actor"] - before
    assert moved[0, 0] > 0.01
    assert abs(moved[1, 0]) < 0.005


def test_picture():
    env = make_env("maniskill:PullCube-v1", EnvConfig(num_envs=1), render=True)
    try:
        env.reset(0)
        frame = env.render()
        assert frame.dtype == np.uint8
        assert frame.ndim == 3
        assert frame.shape[2] == 3
        assert frame.std() > 10, "an empty picture"
        for _ in range(10):
            env.step(torch.ones(1, 8))
        assert (env.render() != frame).any(), "the robot moved, the picture did not"
    finally:
        env.close()


def test_the_batched_adapter_on_the_only_device_there_is():
    """On a GPU it holds many environments; the same code with one of them keeps the contract."""
    env = BatchedManiSkill("PullCube-v1", EnvRequest(1, max_episode_steps=12))
    check_env(env, steps=30)
    plain = ManiSkillEnv("PullCube-v1", EnvRequest(1, max_episode_steps=12))
    assert env.spec == plain.spec
    env.reset(0)
    ends = [bool(env.step(torch.full((1, 8), 0.1)).truncated) for _ in range(24)]
    assert ends == [i % 12 == 11 for i in range(24)]
    env.close()
    plain.close()


def test_models_that_must_be_downloaded(monkeypatch, tmp_path):
    monkeypatch.setenv("MS_ASSET_DIR", str(tmp_path))  # as on a machine where nobody has done so
    with pytest.raises(MissingExtra, match=r"ycb.*mani_skill\.utils\.download_asset PickSingleYCB-v1"):
        make_env("maniskill:PickSingleYCB-v1", EnvConfig(num_envs=1))


def test_tasks_that_are_not_there_or_teach_nothing():
    with pytest.raises(UnknownTask, match="Did you mean maniskill:PullCube-v1"):
        make_env("maniskill:PullCub-v1", EnvConfig(num_envs=1))
    with pytest.raises(FlashSACError, match="no reward to learn from"):
        make_env("maniskill:TableTopFreeDraw-v1", EnvConfig(num_envs=1))


def test_without_a_vulkan_device():
    """In a process of its own: the first look for a device decides for good."""
    code = (
        "from flashsac.config.schema import EnvConfig; from flashsac.sims.make import make_env\n"
        "make_env('maniskill:PullCube-v1', EnvConfig(num_envs=1))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(VK_ICD_FILENAMES="/nonexistent", VK_DRIVER_FILES="/nonexistent"),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode != 0
    assert "MissingExtra: ManiSkill needs a Vulkan device" in done.stderr
    assert "mesa-vulkan-drivers" in done.stderr


def test_training_runs_and_logs_success(tmp_path):
    run = tiny_run(tmp_path / "run", "maniskill:PullCube-v1", steps=400, eval=dict(every=200, episodes=1))
    last = read_metrics(run / "metrics.csv")[-1]
    assert last["step"] == 400
    assert last["eval_length"] == 50
    assert last["eval_success"] in (0.0, 1.0)
    assert all(np.isfinite(last[key]) for key in ("eval_return", "critic_loss", "actor_loss"))
