"""Our Genesis tasks, on the real engine. Rewards by hand are in test_genesis_rewards.py, which needs no Genesis."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys

import pytest
import torch

pytest.importorskip("genesis")

import flashsac
from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError, RenderError, UnknownTask
from flashsac.runs.checkpoint import flatten, unflatten
from flashsac.runs.metrics import read_metrics
from flashsac.sims.catalog import tasks
from flashsac.sims.check import check_env
from flashsac.sims.envs.genesis import make_genesis
from flashsac.sims.make import make_env
from flashsac.sims.simulator import EnvRequest
from flashsac.tasks.genesis.go2 import ACTION_LIMIT
from tests.helpers import PATIENCE, TINY

NAMES = ["go2-walk_easy", "go2-walk", "panda-grasp"]
ENVS = 4
STILL = ("start=still",)


@pytest.fixture(scope="module")
def make():
    """Scenes take seconds to build: one of each kind for all tests."""
    made: dict = {}

    def make(name: str, limit: int | None = None, copy: int = 0, options: tuple[str, ...] = ()):
        key = (name, limit, copy, options)
        if key not in made:
            config = EnvConfig(num_envs=ENVS, max_episode_steps=limit, options=options)
            made[key] = make_env(f"genesis:{name}", config)
        return made[key]

    yield make
    for env in made.values():
        env.close()


@pytest.mark.parametrize("name", NAMES)
def test_check_env(make, name):
    env, known = make(name, 15), tasks()[f"genesis:{name}"]
    check_env(env, steps=40)
    assert (env.spec.obs["actor"], env.spec.obs.get("critic"), env.spec.action_dim) == (
        known.obs,
        known.critic_obs,
        known.action,
    )
    assert env.spec.max_episode_steps == 15


def test_dogs_begin_on_their_way(make):
    env = make("go2-walk")
    for seed in range(10):
        critic = env.reset(seed)["critic"]
        command, velocity, joints = critic[:, 6:8] / 2.0, critic[:, 45:47] / 2.0, critic[:, 9:21]
        assert (velocity >= command.clamp(max=0.0) - 0.2001).all(), "of the command's part nothing, or 0.2 m/s less"
        assert (velocity <= command.clamp(min=0.0) + 0.2001).all(), "all of it, or 0.2 m/s more"
        assert torch.allclose(velocity, env.task._robot.get_vel()[:, :2], atol=1e-5), "they face along x"
        assert (joints.abs() <= 0.2501).all()
        assert joints.abs().max() > 0.2
    easy = make("go2-walk_easy", 60)
    forwards = []
    for seed in range(20):
        easy.reset(seed)
        forwards.append(easy.task._robot.get_vel()[:, 0])
    speed = torch.cat(forwards)
    assert speed.min() >= -0.2001
    assert speed.max() <= 0.7001
    assert speed.mean() == pytest.approx(0.25, abs=0.08), "half of the command"
    assert speed.std() > 0.12


def test_dogs_that_begin_still(make):
    env = make("go2-walk", options=STILL)
    critic = env.reset(0)["critic"]
    assert torch.equal(critic[:, 45:48], torch.zeros(ENVS, 3))
    assert (critic[:, 9:21].abs() <= 0.0501).all()
    assert env.task._body().height.tolist() == pytest.approx([0.42] * ENVS, abs=1e-4), "dropped, as in the example"


@pytest.mark.parametrize(
    ("name", "setting", "choices"),
    [
        ("go2-walk", "start=fast", "start=moving or start=still"),
        ("go2-walk", "start", "start=moving or start=still"),
        ("go2-walk", "gravity=0", "start=moving or start=still"),
        ("panda-grasp", "start=still", "none"),
    ],
)
def test_settings_that_do_not_exist(name, setting, choices):
    with pytest.raises(FlashSACError, match=f"--env.options {setting}=?.*: genesis:{name} takes {choices}"):
        make_env(f"genesis:{name}", EnvConfig(num_envs=1, options=(setting,)))


def test_own_time_limits(make):
    assert make("go2-walk").spec.max_episode_steps == 1000  # 20 s at 50 Hz
    assert make("go2-walk").spec.fps == pytest.approx(50)
    assert make("panda-grasp").spec.max_episode_steps == 300  # 3 s at 100 Hz
    assert make("panda-grasp").spec.fps == pytest.approx(100)


def test_the_dog_stands_until_its_time_is_up(make):
    env = make("go2-walk_easy", 60, options=STILL)
    env.reset(0)
    steps = [env.step(torch.zeros(ENVS, 12)) for _ in range(60)]
    assert not any(step.terminated.any() for step in steps)
    assert [bool(step.truncated.all()) for step in steps] == [False] * 59 + [True]
    last = steps[-1].final_obs["actor"]
    assert (last[:, 3:6] - torch.tensor([0.0, 0.0, -1.0])).abs().max() < 0.05, "upright"
    assert last[:, 6].tolist() == [1.0] * ENVS, "0.5 m/s, twice"
    assert (last[:, 9:21] != steps[-1].obs["actor"][:, 9:21]).any(1).all(), (
        "the final observation is not the next first"
    )


def test_a_tilted_dog_terminates_and_the_others_go_on(make):
    env = make("go2-walk_easy", 60, options=STILL)
    env.reset(0)
    for _ in range(10):
        env.step(torch.zeros(ENVS, 12))
    roll = math.radians(30)
    env.task._robot.set_quat(torch.tensor([[math.cos(roll / 2), math.sin(roll / 2), 0.0, 0.0]]), envs_idx=[1])
    step = env.step(torch.zeros(ENVS, 12))
    assert step.terminated.tolist() == [False, True, False, False]
    assert not step.truncated.any()
    assert step.final_obs["actor"][1, 4] < -0.4, "the final observation still lies on its side"
    assert step.obs["actor"][1, 5] == pytest.approx(-1.0, abs=1e-5)
    ends = [env.step(torch.zeros(ENVS, 12)).truncated.tolist() for _ in range(60)]
    assert [row[0] for row in ends].index(True) == 48, "11 of 60 steps were over"
    assert [row[1] for row in ends].index(True) == 59, "a new episode"


def test_seeds(make):
    env = make("go2-walk")
    first, again, other = env.reset(3)["critic"], env.reset(3)["critic"], env.reset(4)["critic"]
    assert torch.equal(first, again)
    assert (first[:, 9:21] != other[:, 9:21]).all()
    assert len({tuple(row) for row in first.tolist()}) == ENVS, "environments differ from each other"


def test_commands_are_drawn_again_every_four_seconds(make):
    env = make("go2-walk")
    obs = env.reset(0)
    commands = [obs["actor"][0, 6:9]]
    for i in range(400):
        env.task._robot.set_qpos(torch.tensor([0.0, 0.0, 0.35, 1.0, 0.0, 0.0, 0.0]), list(range(7)))  # never falls
        obs = env.step(torch.zeros(ENVS, 12)).obs
        if not torch.equal(obs["actor"][0, 6:9], commands[-1]):
            commands.append(obs["actor"][0, 6:9])
            assert (i + 1) % 200 == 0
    assert len(commands) == 3
    unscaled = torch.stack(commands) / torch.tensor([2.0, 2.0, 0.25])
    assert (unscaled.abs() <= torch.tensor([1.0, 0.5, 1.0])).all()


def test_what_only_the_critic_sees(make):
    env = make("go2-walk", options=STILL)
    env.reset(0)
    for _ in range(50):
        obs = env.step(torch.zeros(ENVS, 12)).obs
    assert torch.equal(obs["critic"][:, :45], obs["actor"])
    height, slip, force = obs["critic"][:, 48:].chunk(3, 1)
    assert (height - 0.022).abs().max() < 0.01, "feet on the ground: the radius of a foot"
    assert (slip < 0.2).all()
    assert (force.sum(1) - 1.0).abs().max() < 0.2, "four feet carry the robot"


def test_an_action_takes_effect_a_step_later(make):
    env = make("go2-walk_easy", 60)
    joints = []
    for value in (0.0, 1.0):
        env.reset(0)
        steps = [env.step(torch.full((ENVS, 12), value)) for _ in range(2)]
        joints.append([step.final_obs["actor"][:, 9:21] for step in steps])
        assert torch.equal(steps[0].final_obs["actor"][:, 33:], torch.full((ENVS, 12), ACTION_LIMIT * value)), (
            "rescaled"
        )
    assert torch.equal(joints[0][0], joints[1][0])
    assert (joints[0][1] != joints[1][1]).all()


@pytest.mark.parametrize("name", ["go2-walk", "panda-grasp"])
def test_goes_on_bit_for_bit_in_another_scene(make, name):
    one, two = make(name, 15), make(name, 15, copy=1)
    generator = torch.Generator().manual_seed(0)
    actions = 2 * torch.rand(30, ENVS, one.spec.action_dim, generator=generator) - 1
    one.reset(0)
    for action in actions[:7]:
        one.step(action)
    tensors: dict = {}
    state = unflatten(flatten(one.state_dict(), tensors), tensors)  # as a checkpoint keeps it
    two.reset(99)
    assert two.load_state_dict(state)
    for action in actions[7:]:  # over the end of an episode
        a, b = one.step(action), two.step(action)
        assert torch.equal(a.reward, b.reward)
        assert all(torch.equal(a.obs[group], b.obs[group]) for group in a.obs)


def test_state_of_another_version_is_refused(make):
    env = make("go2-walk", 15)
    env.reset(0)
    state = env.state_dict()
    state["solvers"]["RigidSolver"].popitem()
    assert env.load_state_dict(state) is False


def test_a_diverging_environment_is_dropped_and_the_others_go_on(make):
    env = make("go2-walk_easy", 60)
    env.reset(0)
    env.step(torch.zeros(ENVS, 12))
    env.task._robot.set_dofs_velocity(torch.full((1, 18), 1e30), envs_idx=[2])
    step = env.step(torch.zeros(ENVS, 12))
    assert step.valid.tolist() == [True, True, False, True]
    for _ in range(20):
        step = env.step(torch.zeros(ENVS, 12))
        assert step.valid.all()
        assert torch.isfinite(step.obs["actor"]).all()


def test_an_arm_that_diverges_in_its_last_step_does_not_spoil_the_trial(make):
    env = make("panda-grasp", 15)
    env.reset(0)
    for _ in range(14):
        env.step(torch.zeros(ENVS, 6))
    env.task._arm.set_dofs_velocity(torch.full((1, 9), 1e30), envs_idx=[2])
    step = env.step(torch.zeros(ENVS, 6))
    assert step.valid.tolist() == [True, True, False, True]
    assert step.truncated.all()
    assert torch.isfinite(env.step(torch.zeros(ENVS, 6)).obs["actor"]).all()


def scripted(obs: torch.Tensor) -> torch.Tensor:
    """Straight to the box: for small angles twice the vector part of q_box * conj(q_hand) is the turn that is left."""
    hand, box = obs[:, 3:7], obs[:, 10:14]
    w, v = hand[:, :1], -hand[:, 1:]
    turn = box[:, :1] * v + w * box[:, 1:] + torch.linalg.cross(box[:, 1:], v)
    return torch.cat((-5 * obs[:, :3], 2 * turn), 1)


def test_a_hand_that_reaches_the_box_lifts_it_and_one_that_idles_does_not(make):
    env = make("panda-grasp")
    for policy, low, high, success in (
        (scripted, 2.2, 3.0, True),
        (lambda obs: torch.zeros(ENVS, 6), 0.0, 0.3, False),
    ):
        obs, total = env.reset(0)["actor"], torch.zeros(ENVS)
        for _ in range(300):
            step = env.step(policy(obs))
            obs, total = step.obs["actor"], total + step.reward
        assert ((low < total) & (total < high)).all(), total
        assert step.truncated.all()
        assert not step.terminated.any()
        assert step.info["success"].tolist() == [success] * ENVS
        assert (step.final_obs["actor"][:, 9] < 0.05).all(), "seen before the lift"


def test_the_arm_holds_still_without_action(make):
    env = make("panda-grasp")
    before = env.reset(0)["actor"]
    for _ in range(100):
        after = env.step(torch.zeros(ENVS, 6)).obs["actor"]
    assert (before - after)[:, :3].abs().max() < 0.01


def test_picture():
    env = make_env("genesis:go2-walk_easy", EnvConfig(num_envs=2), render=True)
    env.reset(0)
    env.step(torch.zeros(2, 12))
    frame = env.render()
    env.close()
    assert frame.shape == (480, 640, 3)
    assert frame.dtype.name == "uint8"
    sky, ground = frame[:60].mean(), frame[-60:].mean()
    assert ground > sky + 5, "the horizon lies above the ground"
    middle = frame[140:340, 220:420]
    assert middle.max() > 180, "the white robot is in the middle"


def test_no_picture_without_a_camera(make):
    with pytest.raises(RenderError, match="render=True"):
        make("go2-walk").render()


def test_one_device_in_a_process(make):
    make("go2-walk")
    with pytest.raises(FlashSACError, match="one device"):
        make_genesis(tasks()["genesis:go2-walk"], EnvRequest(num_envs=1, device="cuda"))


def test_torch_can_still_compile():
    """Whatever was imported first: in a process of its own."""
    code = "from flashsac.sims.envs.genesis import initialised; initialised('cpu'); import torch.utils.cpp_extension"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_unknown_task():
    nothing = dataclasses.replace(tasks()["genesis:go2-walk"], name="go2-wal", own_id="go2-wal")
    with pytest.raises(UnknownTask, match="genesis:go2-walk"):
        make_genesis(nothing, EnvRequest(num_envs=1))


def test_training_with_an_evaluation_scene_beside_it(tmp_path):
    flashsac.train("genesis:go2-walk", run_dir=str(tmp_path / "run"), quiet=True, **TINY)
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert all(math.isfinite(value) for key, value in rows[-1].items() if "loss" in key)
    assert rows[-1]["invalid"] == 0
    assert "eval_return" in rows[-1]
