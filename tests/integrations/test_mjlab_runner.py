"""mjlab's own commands train and play with FlashSAC."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("mjlab")

from flashsac.errors import CheckpointError, FlashSACError
from flashsac.robots.catalog import robot_of
from flashsac.runs.metrics import read_metrics
from tests.helpers import PATIENCE

pytestmark = pytest.mark.slow

TASK = "Mjlab-Cartpole-Swingup-FlashSAC"
SMALL = (
    "--gpu-ids None --env.scene.num-envs 4 --env.episode-length-s 5 --agent.num-steps-per-env 10 --agent.max-iterations 10 "
    "--agent.save-interval 5 --agent.compile off --agent.precision fp32 --agent.algorithm.warmup 100 "
    "--agent.algorithm.updates-per-transition 0.2 --agent.algorithm.batch-size 16 --agent.algorithm.critic-width 8 "
    "--agent.algorithm.actor-width 8"
).split()


def train(folder: Path, *arguments: str) -> str:
    command = [str(Path(sys.executable).parent / "train"), TASK, *SMALL, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr


def runner(log_dir: Path | None = None):
    import mjlab.tasks  # noqa: F401
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.rl import RslRlVecEnvWrapper
    from mjlab.tasks.registry import load_env_cfg, load_rl_cfg, load_runner_cls

    env = RslRlVecEnvWrapper(ManagerBasedRlEnv(load_env_cfg(TASK, play=True), "cpu"))
    return load_runner_cls(TASK)(env, asdict(load_rl_cfg(TASK)), None if log_dir is None else str(log_dir), "cpu")


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mjlab")
    train(folder)
    return folder / "logs" / "rsl_rl" / "cartpole_flashsac"


def test_the_train_command(logs):
    (log_dir,) = logs.iterdir()
    assert {"model_5.pt", "model_10.pt", "params", "flashsac"} <= {path.name for path in log_dir.iterdir()}
    last = read_metrics(log_dir / "flashsac" / "metrics.csv")[-1]
    assert last["step"] == 400
    assert last["updates"] == 60
    assert last["episodes"] >= 4
    assert last["length"] < 100, "episodes begin at random ages, so that they do not all end together"


def test_the_play_commands_policy(logs):
    player = runner()
    player.load(str(min(logs.iterdir()) / "model_10.pt"), load_cfg={"actor": True}, strict=True, map_location="cpu")
    policy, env = player.get_inference_policy(device="cpu"), player.env
    obs = env.get_observations()
    seen = []
    for _ in range(5):
        action = policy(obs)
        seen.append(action)
        obs, *_ = env.step(action)
    assert action.shape == (1, 1)
    assert torch.cat(seen).abs().max() <= 1
    assert env.unwrapped.cfg.auto_reset, "who plays does not reset"


def test_resume_goes_on_with_the_replay(logs):
    out = train(logs.parents[2], "--agent.resume", "True")
    assert "resuming custom:cartpole_flashsac at step 400 of 800" in out
    first, second = sorted(logs.iterdir())
    assert (second / "model_20.pt").exists()
    steps = [row["step"] for row in read_metrics(second / "flashsac" / "metrics.csv")]
    assert steps[-1] == 800
    assert steps == sorted(set(steps))
    assert read_metrics(first / "flashsac" / "metrics.csv")[-1]["step"] == 400, "the old run stays as it was"


def test_what_cannot_work(logs, tmp_path, monkeypatch):
    with pytest.raises(FlashSACError, match="warm up less"):
        runner(tmp_path).learn(3)
    with pytest.raises(FlashSACError, match="log directory"):
        runner().learn(3)
    with pytest.raises(FlashSACError, match="no policy"):
        runner().get_inference_policy()
    torch.save({"actor_state_dict": {}}, tmp_path / "model_1.pt")
    with pytest.raises(CheckpointError, match="not written by FlashSAC"):
        runner().load(str(tmp_path / "model_1.pt"))
    alone = tmp_path / "model_10.pt"
    alone.write_bytes((min(logs.iterdir()) / "model_10.pt").read_bytes())
    moved = runner(tmp_path)
    moved.load(str(alone))
    with pytest.raises(CheckpointError, match="whole run"):
        moved.learn(200_000)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(FlashSACError, match="one GPU"):
        runner()


def test_a_policy_that_looks_back(tmp_path):
    """On the paper's G1 task, whose velocities and mirrors the runner knows; what `play` shows it is what training showed it."""
    import mjlab.tasks  # noqa: F401
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.rl import RslRlVecEnvWrapper
    from mjlab.tasks.registry import load_env_cfg, load_rl_cfg, load_runner_cls

    task, length = "FlashSAC-G1-Flat", 3
    env_cfg, cfg = load_env_cfg(task), asdict(load_rl_cfg(task))
    env_cfg.scene.num_envs = 2
    env_cfg.episode_length_s = 0.1  # five steps
    cfg |= {"history": length, "num_steps_per_env": 10, "compile": "off", "precision": "fp32"}
    cfg["algorithm"] |= {"warmup": 20, "updates_per_transition": 0.2, "batch_size": 8}
    cfg["algorithm"] |= {"critic_width": 8, "actor_width": 8}

    learner = load_runner_cls(task)(RslRlVecEnvWrapper(ManagerBasedRlEnv(env_cfg, "cpu")), cfg, str(tmp_path), "cpu")
    learner.learn(3)
    last = read_metrics(tmp_path / "flashsac" / "metrics.csv")[-1]
    assert last["updates"] == 8
    assert last["velocity_loss"] > 0
    assert robot_of(learner.policy.task) == robot_of("mjlab:FlashSAC-G1-Flat") is not None, "so it can be deployed"

    env_cfg.auto_reset = True
    player = load_runner_cls(task)(RslRlVecEnvWrapper(ManagerBasedRlEnv(env_cfg, "cpu")), cfg, None, "cpu")
    player.load(str(tmp_path / "model_3.pt"))
    assert player.policy is not None
    act, env = player.get_inference_policy("cpu"), player.env
    obs, begun = env.get_observations(), 0
    past: list[list[torch.Tensor]] = [[], []]
    for _ in range(12):
        newest = obs["actor"].clone()
        for robot, age in enumerate(env.unwrapped.episode_length_buf.tolist()):
            if age == 0:
                past[robot], begun = [newest[robot]] * length, begun + 1
        history = torch.stack([torch.cat(rows[-length:]) for rows in past])
        action = act(obs)
        torch.testing.assert_close(action, player.policy.act({"actor": newest, "history": history}))
        for robot in range(2):
            past[robot].append(newest[robot])
        obs, *_ = env.step(action)
    assert begun >= 4, "episodes ended on the way"


def test_tasks_from_pixels_are_left_out():
    import mjlab.tasks  # noqa: F401
    from mjlab.tasks.registry import list_tasks

    names = list_tasks()
    assert "Mjlab-Velocity-Rough-Unitree-G1-FlashSAC" in names
    assert "Mjlab-Lift-Cube-Yam-FlashSAC" in names
    assert "Mjlab-Lift-Cube-Yam-Rgb-FlashSAC" not in names


def test_settings_of_another_kind_are_passed_over():
    """A plug-in's task with a runner of its own must not end the registration of all others."""
    import mjlab.tasks  # noqa: F401
    from mjlab.tasks.registry import load_rl_cfg

    from flashsac.integrations.mjlab.runner import settings_like

    ppo = load_rl_cfg("Mjlab-Cartpole-Swingup")
    ours = settings_like(ppo)
    assert ours is not None
    assert (ours.obs_groups, ours.num_steps_per_env) == (ppo.obs_groups, ppo.num_steps_per_env)
    assert settings_like(SimpleNamespace(obs_groups=ppo.obs_groups, clip_actions=None, experiment_name="other")) is None
    assert settings_like(SimpleNamespace(num_steps_per_env=24, clip_actions=None, experiment_name="other")) is None


def test_the_papers_g1_task_is_there_for_both_algorithms():
    import mjlab.tasks  # noqa: F401
    from mjlab.tasks.registry import list_tasks, load_rl_cfg, load_runner_cls

    ours = [name for name in list_tasks() if name.startswith("FlashSAC-")]
    assert ours == ["FlashSAC-G1-Flat", "FlashSAC-G1-Flat-PPO", "FlashSAC-G1-Rough", "FlashSAC-G1-Rough-PPO"]
    for name in ours:
        assert load_rl_cfg(name).obs_groups == {"actor": ("actor",), "critic": ("actor", "privileged")}
        assert ("PPO" in name) == (load_runner_cls(name).__name__ != "G1Runner")
        if "PPO" not in name:
            assert (load_rl_cfg(name).history, load_rl_cfg(name).algorithm.symmetry) == (5, True), "as in the paper"
