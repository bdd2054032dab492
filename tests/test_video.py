"""Videos: real frames of real robots, and no GL library is no disaster."""

from __future__ import annotations

import imageio.v2 as imageio
import numpy as np
import pytest

import flashsac
from flashsac.errors import RenderError
from flashsac.policy import find_policy
from flashsac.video import record
from tests.helpers import TINY, cli


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
    out = record(find_policy(run), tmp_path / "video.mp4", seconds=1.0)
    frames = np.stack(imageio.mimread(out, memtest=False)).astype(np.float32)
    assert len(frames) >= 10
    assert frames.std() > 5, "not one colour"
    assert np.abs(frames[0] - frames[-1]).max() > 30, "something moved"


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
        record(find_policy(run), tmp_path / "video.mp4", seconds=1.0)


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
    done = cli("play", str(run), "--seconds", "1", check=False)
    if "pygame" in done.stderr:
        assert "no video" in done.stderr  # Pendulum draws with pygame, which is not ours to require
        run2 = trained(tmp_path / "two", "mujoco:HalfCheetah-v4")
        done = cli("play", str(run2), "--seconds", "1")
    assert "wrote" in done.stdout
