"""Settings as Python hands them over, and devices that are there or not."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import flashsac
from flashsac.errors import FlashSACError
from flashsac.runs.directory import Run, read_config
from flashsac.training.start import checked_device
from tests import toy_envs
from tests.helpers import TINY, checkpoint_steps, cli, edit_config, tiny_run


def test_wrong_choices_from_python():
    with pytest.raises(
        FlashSACError, match=r"--compile must be one of on, off, not True.*--replay.storage must be one of auto"
    ):
        flashsac.train(toy_envs.make_point, **TINY | {"compile": True, "replay": {"storage": "tape"}})


@pytest.mark.slow
def test_numbers_and_paths_as_python_has_them(tmp_path):
    settings = TINY | dict(steps=2e2, eval=dict(every=np.int64(100), episodes=2), run_dir=tmp_path / "run")
    flashsac.train(toy_envs.make_point, quiet=True, **settings)
    config = read_config(tmp_path / "run")[1]
    assert (config.steps, config.eval.every) == (200, 100)
    assert isinstance(config.steps, int)
    for setting, problem in (("steps", "--steps"), ("log_every", "--log-every")):
        with pytest.raises(FlashSACError, match=f"{problem} must be a whole number, not 2.5"):
            flashsac.train(toy_envs.make_point, **TINY | {setting: 2.5})
    negative = dict(log_every=-1, checkpoint_every=-1, eval=dict(every=-1))
    with pytest.raises(FlashSACError, match=r"--log-every must be at least 0, not -1; --checkpoint.*; --eval.every"):
        flashsac.train(toy_envs.make_point, **TINY | negative)


def test_jobs_of_the_same_second_get_a_directory_each(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flashsac.runs.directory.time.strftime", lambda _: "now")
    runs = [Run.create("gym:Pendulum-v1", flashsac.TrainConfig()) for _ in range(3)]
    assert [run.path.name for run in runs] == ["now-seed0", "now-seed0-2", "now-seed0-3"]
    for run in runs:
        run.close()
        run.discard()
    assert not list(tmp_path.glob("runs/*"))


def test_misspelt_settings_from_python():
    with pytest.raises(
        FlashSACError, match=r"no setting 'batchsize' here. Did you mean agent=dict\(batch_size=...\)\?"
    ):
        flashsac.train(toy_envs.make_point, batchsize=16)
    with pytest.raises(
        FlashSACError, match=r"no setting 'batchsize' here. Did you mean agent=dict\(batch_size=...\)\?"
    ):
        flashsac.configure("gym:Pendulum-v1", agent=dict(batchsize=16))
    assert {"train", "evaluate", "play", "load_policy"} <= set(dir(flashsac))


def test_no_gpu():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(FlashSACError, match="no CUDA device"):
        flashsac.train(toy_envs.make_point, device="cuda", **TINY)


def test_devices_that_are_not_there(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [checked_device(name) for name in ("auto", "cpu", "cuda", "cuda:1")] == ["cuda", "cpu", "cuda", "cuda:1"]
    with pytest.raises(FlashSACError, match="--device cuda:7: the last of the GPUs here is cuda:1"):
        checked_device("cuda:7")
    for name in ("gpu", "cuda:x", "cuda:-1", "0"):
        with pytest.raises(FlashSACError, match=f"--device {name}: there is no such device"):
            checked_device(name)


@pytest.mark.slow
def test_a_run_begun_on_a_gpu_goes_on_without_one(tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    run = tiny_run(tmp_path / "run", task="gym:Pendulum-v1", steps=200, checkpoint_every=100, eval=dict(every=0))
    shutil.rmtree(run / "checkpoints" / "step-000000000200")
    edit_config(run, '"device": "cpu"', '"device": "cuda"')
    refused = cli("resume", str(run), check=False).stderr
    assert "no CUDA device. Use --device cpu (also to resume" in refused
    assert "Traceback" not in refused
    cli("resume", str(run), "--device", "cpu")
    assert checkpoint_steps(run)[0] == 200
