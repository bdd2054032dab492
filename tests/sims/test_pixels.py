"""Images from dm_control and from Gymnasium environments, drawn for real."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces

from flashsac.config.schema import EnvConfig
from flashsac.errors import BadSimulation, FlashSACError, RenderError, UnsupportedSpace
from flashsac.sims.catalog import tasks
from flashsac.sims.check import check_env
from flashsac.sims.make import make_env
from flashsac.sims.vector.frames import FrameStack, channels_first
from flashsac.sims.vector.workers import WorkerVecEnv
from flashsac.system import gl
from flashsac.types import Pixels
from tests import toy_envs

pytestmark = pytest.mark.slow

SMALL = dict(image_size=24, frame_stack=2, max_episode_steps=8)


@pytest.mark.parametrize("overlap", [True, False])
def test_check_env(overlap):
    env = make_env("dmc-vision:cartpole-balance", EnvConfig(num_envs=2, overlap=overlap, **SMALL))
    assert isinstance(env, WorkerVecEnv) == overlap
    assert env.spec.obs == {}
    assert env.spec.pixels == Pixels(3, 24, 24, 2)
    check_env(env, steps=20)
    env.close()


def test_workers_show_what_this_process_would():
    first, second = (
        make_env("dmc-vision:reacher-easy", EnvConfig(num_envs=2, overlap=overlap, **SMALL))
        for overlap in (True, False)
    )
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(first.reset(3)["pixels"], second.reset(3)["pixels"])
    for _ in range(10):
        action = torch.rand(2, 2, generator=generator) * 2 - 1
        ours, theirs = first.step(action), second.step(action)
        assert torch.equal(ours.obs["pixels"], theirs.obs["pixels"])
        assert torch.equal(ours.reward, theirs.reward)
    first.close()
    second.close()


def test_actions_are_repeated_and_images_are_those_of_dm_control():
    """Against dm_control itself, frame by frame."""
    from dm_control import suite

    config = EnvConfig(num_envs=1, overlap=False, image_size=24, frame_stack=3, with_state=True)
    env = make_env("dmc-vision:cheetah-run", config)
    theirs = suite.load("cheetah", "run", task_kwargs={"random": 5})
    theirs.reset()
    draw = lambda: np.moveaxis(theirs.physics.render(24, 24, camera_id=0), -1, 0)
    frames = [draw()] * 3
    obs = env.reset(5)
    assert env.spec.max_episode_steps == 500
    assert env.spec.fps == pytest.approx(50)
    for index in range(6):
        assert np.array_equal(obs["pixels"][0].numpy(), np.concatenate(frames[-3:])), index
        action = torch.full((1, 6), 0.1 * index)
        step = env.step(action)
        steps = [theirs.step(action[0].numpy()) for _ in range(2)]
        assert step.reward.item() == pytest.approx(sum(one.reward for one in steps), abs=1e-6)
        state = np.concatenate([np.ravel(steps[-1].observation[key]) for key in sorted(steps[-1].observation)])
        assert np.allclose(step.obs["actor"][0].numpy(), state, atol=1e-5)
        frames.append(draw())
        obs = step.obs
    env.close()


def test_an_episode_ends_after_its_time_and_shows_its_last_image():
    env = make_env("dmc-vision:cartpole-balance", EnvConfig(num_envs=1, overlap=False, **SMALL))
    env.reset(0)
    steps = [env.step(torch.ones(1, 1)) for _ in range(9)]
    assert [bool(step.truncated) for step in steps] == [False] * 7 + [True, False]
    last = steps[7]
    assert not torch.equal(last.obs["pixels"], last.final_obs["pixels"])
    assert torch.equal(last.obs["pixels"][0, :3], last.obs["pixels"][0, 3:]), (
        "the first frame stands for the one before it"
    )
    assert torch.equal(last.final_obs["pixels"][0, :3], steps[6].obs["pixels"][0, 3:])
    env.close()


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("state", [True, False])
def test_gymnasium_images(state, channels_last):
    env = make_env(lambda: toy_envs.PixelPoint(state, 16, channels_last), EnvConfig(num_envs=2))
    assert env.spec.pixels == Pixels(3, 16, 16, 3)
    assert env.spec.obs == ({"actor": 2} if state else {})
    check_env(env)
    image = env.reset(0)["pixels"][0]
    assert image.shape == (9, 16, 16)
    assert torch.equal(image[:3], image[6:])
    assert image[2].float().mean() > image[0].float().mean(), "mostly blue: channels are where they belong"


class Looking(toy_envs.PixelPoint):
    """Shows zeros of the given shapes and types."""

    def __init__(self, **observations):
        super().__init__()
        self.observation_space = spaces.Dict(
            {name: spaces.Box(0, 255, shape, dtype) for name, (shape, dtype) in observations.items()}
        )

    def look(self, numbers):
        return {name: np.zeros(box.shape, box.dtype) for name, box in self.observation_space.spaces.items()}


def test_two_cameras_become_channels_and_privileged_numbers_stay_with_the_critic():
    image = ((20, 16, 3), np.uint8)
    env = make_env(lambda: Looking(left=image, right=image, privileged=((4,), np.float32)), EnvConfig(num_envs=1))
    assert env.spec.pixels == Pixels(6, 20, 16, 3)
    assert env.spec.obs == {"critic": 4}
    assert env.reset(0)["pixels"].shape == (1, 18, 20, 16)


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        (dict(left=((16, 16, 3), np.uint8), right=((20, 20, 3), np.uint8)), "different sizes"),
        (dict(camera=((16, 16, 3), np.float32)), "Images are uint8"),
        (dict(camera=((3, 16, 16, 3), np.uint8)), "with three axes"),
        (dict(camera=((16, 16), np.uint8)), "For a grey image"),
    ],
)
def test_what_is_no_image_is_refused(observations, message):
    with pytest.raises(UnsupportedSpace, match=message):
        make_env(lambda: Looking(**observations), EnvConfig(num_envs=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda image: image / 255, r"the observation as float64 .* says uint8"),
        (lambda image: image[2:], r"of shape \(14, 16, 3\), but .* of shape \(16, 16, 3\)"),
    ],
    ids=["type", "shape"],
)
def test_images_unlike_those_promised_are_refused(change, message):
    class Liar(toy_envs.PixelPoint):
        def look(self, numbers):
            return change(super().look(numbers))

    with pytest.raises(BadSimulation, match=message):
        make_env(Liar, EnvConfig(num_envs=1)).reset(0)


def test_frame_stack_by_hand():
    frames = FrameStack(3)
    one, two = (np.full((1, 2, 2), value, np.uint8) for value in (1, 2))
    assert frames.begin(one)[:, 0, 0].tolist() == [1, 1, 1]
    assert frames.add(two)[:, 0, 0].tolist() == [1, 1, 2]
    assert frames.begin(two)[:, 0, 0].tolist() == [2, 2, 2]
    assert channels_first(np.zeros((5, 6, 3))).shape == (3, 5, 6)
    assert channels_first(np.zeros((84, 84, 9))).shape == (9, 84, 84), "a stack already"
    assert channels_first(np.zeros((3, 5, 6))).shape == (
        3,
        5,
        6,
    )


def test_a_backend_that_draws_is_found_by_trying(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "")
    gl.require_gl_backend()
    assert os.environ["MUJOCO_GL"] in ("egl", "osmesa")


def test_without_any_backend_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "no-such-library")
    with pytest.raises(
        RenderError, match=r"MUJOCO_GL is no-such-library, which does not draw here \(.*apt-get install"
    ):
        make_env("dmc-vision:cartpole-balance", EnvConfig(num_envs=1))
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.setattr(gl, "why_not", lambda name: f"no {name}")
    with pytest.raises(RenderError, match=r"neither EGL \(no egl\) nor OSMesa \(no osmesa\) .*apt-get install"):
        make_env("dmc-vision:cartpole-balance", EnvConfig(num_envs=1))


@pytest.mark.parametrize("size", [14, 481])
def test_images_that_cannot_be_are_refused_at_once(size):
    with pytest.raises(FlashSACError, match=f"--env.image-size must be 15 to 480, not {size}"):
        make_env("dmc-vision:cartpole-balance", EnvConfig(num_envs=1, image_size=size))


def test_every_task_of_dm_control_is_there():
    from dm_control import suite

    known = {task.name: task.action for task in tasks().values() if task.suite == "dmc-vision"}
    assert set(known) == {f"{domain}-{name}" for domain, name in suite.ALL_TASKS}


def test_every_domain_of_dm_control_has_a_camera():
    """All domains load and draw, in one process of its own so that memory is given back."""
    code = (
        "from flashsac.config.schema import EnvConfig\n"
        "from flashsac.sims.make import make_env; from flashsac.sims.catalog import tasks\n"
        "seen = set()\n"
        "for task in tasks().values():\n"
        "    domain = task.name.split('-')[0]\n"
        "    if task.suite == 'dmc-vision' and domain not in seen:\n"
        "        seen.add(domain)\n"
        "        env = make_env(task.full_name, EnvConfig(num_envs=1, overlap=False, image_size=32))\n"
        "        images = env.reset(0)['pixels'].float()\n"
        "        assert images.std() > 1, task\n"
        "        assert env.spec.action_dim == task.action, task\n"
        "        env.close()\n"
        "assert len(seen) > 15, seen\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
