"""Videos: real frames of real robots, and no GL library is no disaster."""

from __future__ import annotations

import gymnasium
import imageio.v2 as imageio
import numpy as np
import pytest

import flashsac
from flashsac.errors import RenderError
from flashsac.policies.find import policy_file
from flashsac.policies.video import record
from tests import toy_envs
from tests.helpers import TINY, cli, edit_config

pytestmark = pytest.mark.slow


def trained(tmp_path, task, **env):
    flashsac.train(
        task,
        run_dir=str(tmp_path / "run"),
        quiet=True,
        **TINY | dict(steps=200, env=dict(num_envs=2, **env), eval=dict(every=0)),
    )
    return tmp_path / "run"


@pytest.mark.parametrize("task", ["mujoco:HalfCheetah-v4", "dmc:cartpole-balance", "playground:Go1JoystickFlatTerrain"])
def test_video_shows_something_that_moves(tmp_path, task):
    run = trained(tmp_path, task)
    out = record(policy_file(run), tmp_path / "video.mp4", seconds=1.0)
    frames = np.stack(imageio.mimread(out, memtest=False)).astype(np.float32)
    assert len(frames) >= 10
    assert frames.std() > 5, "not one colour"
    assert np.abs(frames[0] - frames[-1]).max() > 30, "something moved"


def test_a_policy_is_filmed_in_what_it_was_trained_in(tmp_path):
    run = trained(tmp_path, "playground:Go1JoystickFlatTerrain", blind=True, options=("noise_level=0.5",))
    assert flashsac.play(run, seconds=0.1) == run / "videos" / "play.mp4"
    assert record(policy_file(run), tmp_path / "alone.mp4", seconds=0.1).exists(), "the file alone knows what is hidden"
    edit_config(run, "noise_level=0.5", "noise_lvl=0.5")
    with pytest.raises(RenderError, match="Did you mean noise_level"):
        flashsac.play(run, seconds=0.1)


def test_a_renderer_that_dies_does_not_take_the_caller_with_it(tmp_path, monkeypatch):
    run = trained(tmp_path, "playground:Go1JoystickFlatTerrain")
    # Without any GL library EnvPool's renderer would abort its process.
    monkeypatch.setenv("FLASHSAC_TEST_NO_GL", "1")
    (tmp_path / "sitecustomize.py").write_text(
        "import ctypes\nreal = ctypes.CDLL.__init__\n"
        "def init(self, name, *a, **k):\n"
        "    if name and ('EGL' in str(name) or 'OSMesa' in str(name)): raise OSError('no GL')\n"
        "    real(self, name, *a, **k)\nctypes.CDLL.__init__ = init\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(RenderError, match="apt-get install"):
        record(policy_file(run), tmp_path / "video.mp4", seconds=1.0)


def test_training_goes_on_without_gl(tmp_path):
    done = cli(
        *"train mujoco:HalfCheetah-v4 --preset laptop --steps 300 --agent.warmup 100 --agent.batch-size 16".split(),
        *"--compile off --agent.critic-width 8 --agent.actor-width 8 --eval.episodes 2 --run-dir".split(),
        str(tmp_path / "run"),
        MUJOCO_GL="nonsense",
    )
    assert "note: no video" in done.stderr
    assert "trained" in done.stdout


def test_play_writes_a_file_where_there_is_no_display(tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    run = trained(tmp_path, "gym:Pendulum-v1")
    assert f"wrote {run / 'videos' / 'play.mp4'}" in cli("play", "--seconds", "1", str(run)).stdout
    said = cli("play", str(run), "--seconds", "9", "--checkpoint", "last", "--out", "swing", cwd=tmp_path).stdout
    assert "the episode ended after 6.7 of 9 s" in said, "200 steps at 30 a second"
    assert (tmp_path / "swing.mp4").stat().st_size > 1000
    before = sorted(tmp_path.rglob("*"))
    for out, problem in (("nowhere/at/all.mp4", "no directory nowhere/at"), ("film.txt", "name ends in .mp4")):
        done = cli("play", str(run), "--out", out, cwd=tmp_path, check=False)
        assert problem in done.stderr
    assert sorted(tmp_path.rglob("*")) == before, "nothing is left behind"


def test_image_observations_are_filmed_where_nothing_else_is_drawn(tmp_path):
    flashsac.train(
        toy_envs.make_pixel_point,
        run_dir=str(tmp_path / "run"),
        quiet=True,
        **TINY | dict(steps=120, video=True, eval=dict(every=0)),
    )
    frames = np.stack(imageio.mimread(tmp_path / "run" / "videos" / "final.mp4", memtest=False))
    assert len(frames) == 20, "the whole episode"
    assert frames.shape[1:] == (240, 240, 3)
    assert frames.std() > 5


def test_an_environment_that_draws_nothing_gets_a_sentence_and_leaves_no_file(tmp_path, recwarn):
    run = trained(tmp_path, toy_envs.make_point)
    with pytest.raises(RenderError, match="no video: the environment draws no pictures. Its render"):
        flashsac.play(run, lambda: gymnasium.wrappers.OrderEnforcing(toy_envs.PointEnv()))
    assert not list(recwarn), "Gymnasium's own warning about render_mode is not shown beside ours"
    with pytest.raises(RenderError, match="the environment could not be drawn .OutOfInk."):
        flashsac.play(run, Inkless, out=tmp_path / "none.mp4")
    assert not list(tmp_path.rglob("*.mp4"))
    assert not (run / "videos").exists()


class OutOfInk(Exception):
    pass


class Inkless(toy_envs.PointEnv):
    def render(self):
        raise OutOfInk


def test_a_factory_that_takes_a_render_mode_is_asked_to_draw(tmp_path):
    make = lambda render_mode=None: gymnasium.make("Pendulum-v1", render_mode=render_mode)
    run = trained(tmp_path, make)
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flashsac.policies.video.PACE", 0.0)
        out = flashsac.play(run, make, seconds=0.2, say=said.append)
    assert out == run / "videos" / "play.mp4"
    assert said[0] == "  frame 1 of 6"
