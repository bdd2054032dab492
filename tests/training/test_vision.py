"""From images to a policy file and back: training, evaluating, filming, as for state."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from gymnasium import spaces

import flashsac
from flashsac.config.schema import ReplayConfig
from flashsac.errors import CheckpointError, FlashSACError
from flashsac.runs.metrics import read_metrics
from flashsac.sims.make import make_env
from flashsac.training.replay_storage import make_replay
from flashsac.types import EnvSpec, Pixels
from tests import toy_envs
from tests.helpers import TINY, blocks, cli

pytestmark = pytest.mark.slow

SEEING = TINY | dict(agent=TINY["agent"] | dict(image_channels=4, image_features=8, image_shift=1, n_step=3))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("images") / "run"
    changes = dict(env=dict(num_envs=2, image_size=24, max_episode_steps=25), steps=300)
    flashsac.train("dmc-vision:reacher-easy", run_dir=str(path), quiet=True, **SEEING | changes)
    return path


def test_a_run_from_images_writes_what_every_run_writes(run):
    rows = read_metrics(run / "metrics.csv")
    assert rows[-1]["step"] == 300
    assert np.isfinite(rows[-1]["critic_loss"])
    assert "eval_return" in rows[-1]
    for policy in (run, run / "checkpoints" / "best.safetensors"):
        assert "return" in cli("eval", str(policy), "--episodes", "1").stdout
    video = run / "film.mp4"
    cli("play", str(run), "--out", str(video), "--seconds", "1")
    assert video.stat().st_size > 1000


def test_its_policy_takes_images(run):
    policy = flashsac.load_policy(run)
    assert policy.shapes == {"pixels": (9, 24, 24)}
    images = np.random.default_rng(0).integers(256, size=(4, 9, 24, 24), dtype=np.uint8)
    together = policy(images)
    assert together.shape == (4, 2)
    assert np.allclose(policy(images[1]), together[1], atol=1e-6)
    assert np.allclose(policy({"pixels": images[1]}), together[1], atol=1e-6)
    with pytest.raises(ValueError, match="takes observations 'pixels' of 9 x 24 x 24, not 3 x 24 x 24: .*oldest first"):
        policy(images[0, :3])
    with pytest.raises(ValueError, match="images of uint8"):
        policy(images / 255)
    env = make_env(policy.task, policy.env_config())
    policy.check_fits(env.spec)
    env.close()
    spec = EnvSpec(1, {}, 2, (-1.0,) * 2, (1.0,) * 2, None, pixels=Pixels(3, 84, 84, 3))
    with pytest.raises(CheckpointError, match="9 x 24 x 24"):
        policy.check_fits(spec)


def test_privileged_numbers_beside_images(tmp_path):
    """Training shows them to the critic; acting does not need them."""

    class Seeing(toy_envs.PixelPoint):
        def __init__(self):
            super().__init__(state=True)
            self.observation_space = spaces.Dict(
                {"camera": self.observation_space["camera"], "critic": self.observation_space["numbers"]}
            )

        def look(self, numbers):
            seen = super().look(numbers)
            return {"camera": seen["camera"], "critic": seen["numbers"]}

    flashsac.train(Seeing, run_dir=str(tmp_path / "run"), quiet=True, **SEEING)
    assert flashsac.load_policy(tmp_path / "run").shapes == {"pixels": (9, 16, 16)}


@pytest.mark.parametrize("state", [False, True])
def test_any_gymnasium_environment_with_images_trains(tmp_path, state):
    flashsac.train(lambda: toy_envs.PixelPoint(state), run_dir=str(tmp_path / "run"), quiet=True, **SEEING)
    policy = flashsac.load_policy(tmp_path / "run")
    assert set(policy.shapes) == ({"actor", "pixels"} if state else {"pixels"})
    image = np.zeros((9, 16, 16), np.uint8)
    assert policy({"pixels": image, "actor": np.zeros(2)} if state else image).shape == (2,)
    if state:
        with pytest.raises(ValueError, match="actor is missing"):
            policy({"pixels": image})
    _comment, stack, *calls = blocks("python", "docs/vision.md")[0].splitlines()
    names = dict.fromkeys(("before_last", "last", "newest"), np.zeros((16, 16, 3), np.uint8))
    names |= {"np": np, "policy": policy, "numbers": np.zeros(2)}
    exec(stack, names)
    exec(calls[state], names)
    assert names["action"].shape == (2,)


def test_settings_that_do_nothing_and_settings_for_state_are_said(tmp_path, capsys):
    """An environment of the user's own draws as it does; and it does not say by its name that it shows images."""
    changes = dict(agent=SEEING["agent"] | dict(n_step=1), env=dict(num_envs=2, image_size=64, with_state=True))
    flashsac.train(toy_envs.make_pixel_point, run_dir=str(tmp_path / "run"), **SEEING | changes)
    said = capsys.readouterr().out
    assert "image_size is 16; --env.image-size 64 does nothing" in said
    assert "with_state is False; --env.with-state True does nothing" in said
    assert "--preset vision has the paper's for images" in said
    env = json.loads((tmp_path / "run" / "config.json").read_text())["config"]["env"]
    assert (env["image_size"], env["with_state"]) == (16, False)


def test_shifts_leave_something_to_see(tmp_path):
    with pytest.raises(FlashSACError, match=r"more than half of an image \(16 x 16\)"):
        flashsac.train(
            toy_envs.make_pixel_point,
            run_dir=str(tmp_path),
            **SEEING | dict(agent=SEEING["agent"] | dict(image_shift=9)),
        )


def test_a_million_images_go_to_disk_where_memory_is_short(tmp_path, monkeypatch):
    monkeypatch.setattr("flashsac.training.replay_storage.available_memory", lambda: 2 * 10**6)
    spec = EnvSpec(1, {}, 2, (-1.0,) * 2, (1.0,) * 2, None, pixels=Pixels(3, 24, 24, 3))
    said: list[str] = []
    options = dict(steps=2000, discount=0.99, n_step=3, run_dir=tmp_path, device=torch.device("cpu"), say=said.append)
    replay = make_replay(spec, ReplayConfig(capacity=2000), **options)
    assert "on disk" in said[0] and "memory are free" in said[0]  # noqa: PT018
    assert (tmp_path / "replay-ring" / "pixels").stat().st_size == replay.rings["pixels"].frames.nbytes
    monkeypatch.undo()
    make_replay(spec, ReplayConfig(capacity=2000), **options)
    assert "in memory" in said[1]
    assert not (tmp_path / "replay-ring").exists()
