"""A disk that is full, or goes away, costs nothing that was learned; and what is said of it is true."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading

import pytest

import flashsac
from flashsac.errors import CheckpointError, RunDirectoryError
from flashsac.policies.find import load_policy, policy_file
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.directory import Run
from flashsac.runs.metrics import read_metrics
from flashsac.training.hooks import Hooks
from flashsac.training.start import resume_run
from tests import toy_envs
from tests.helpers import TINY, checkpoint_steps, full_disk, tiny_run, wait_until

pytestmark = pytest.mark.slow

NO_ROOM = 20_000
"""Bytes a file may have: enough for a policy, too few for a checkpoint."""


@contextlib.contextmanager
def meanwhile(condition, action):
    """Does something in another thread, once a condition is true."""
    thread = threading.Thread(target=lambda: wait_until(condition) and action(), daemon=True)
    thread.start()
    yield
    thread.join()


def test_the_last_save_waits_for_room(tmp_path, capfd):
    run = tmp_path / "run"
    alone = run / "checkpoints" / "policy-000000000400.safetensors"
    with full_disk(NO_ROOM) as free, meanwhile(alone.exists, free):
        result = flashsac.train(toy_envs.make_point, run_dir=str(run), **TINY | dict(steps=400, checkpoint_every=100))
    said = capfd.readouterr().out
    assert result.step == 400
    assert checkpoint_steps(run) == [400]
    assert f"No checkpoint was saved before, and the policy alone was written to {alone}." in said
    assert "Training goes on and will try again" in said
    assert "Waiting until it can be written. Ctrl-C ends the run without it." in said
    assert not alone.exists(), "there is a whole checkpoint now"
    assert not (run / ".reserve").exists()


def test_ctrl_c_ends_the_wait_with_the_policy_saved(tmp_path):
    run = tmp_path / "run"
    alone = run / "checkpoints" / "policy-000000000400.safetensors"
    stop = lambda: os.kill(os.getpid(), signal.SIGINT)
    settings = TINY | dict(steps=400, checkpoint_every=100, quiet=True)
    with (
        full_disk(NO_ROOM),
        meanwhile(alone.exists, stop),
        pytest.raises(
            CheckpointError, match="could not be written.*starts from the beginning with: flashsac resume"
        ) as caught,
    ):
        flashsac.train(toy_envs.make_point, run_dir=str(run), **settings)
    assert f"the policy alone was written to {alone}" in str(caught.value)
    assert not list(alone.parent.glob("*step*"))
    assert policy_file(run, "last") == policy_file(run, 400) == alone
    assert load_policy(alone).task == "custom:make_point"
    assert [path.name for path in alone.parent.glob("policy*")] == [alone.name], "only the newest"
    assert flashsac.resume(run, toy_envs.make_point, quiet=True).step == 400
    assert not alone.exists()


def test_what_is_untouched_is_named(tmp_path, capfd):
    run = tiny_run(tmp_path / "run", steps=200, checkpoint_every=0)
    trainer = resume_run(Run.open(run), toy_envs.make_point)
    with full_disk(NO_ROOM), contextlib.closing(trainer):
        assert not trainer.save(fatal=False)
    said = capfd.readouterr().out
    assert "step-000000000200 is untouched" in said
    assert "KB, " in said, "what it needs and what is free"
    assert CheckpointStore(run, "custom:make_point").load()[0].step == 200


def test_rows_and_the_best_policy_are_written_once_there_is_room(tmp_path, capsys):
    """All rows since the disk was full, evaluations among them, and the policy that was best meanwhile."""

    class Fills(Hooks):
        def after_row(self, trainer, row):
            if row["step"] == 150:
                self.disk = contextlib.ExitStack()
                self.disk.enter_context(full_disk(100))
            if row["step"] == 450:
                self.disk.close()

    alone, run = tiny_run(tmp_path / "alone"), tmp_path / "run"
    flashsac.train(toy_envs.make_point, run_dir=str(run), hooks=[Fills()], **TINY | dict(checkpoint_every=100))
    timeless = lambda run: [
        {name: value for name, value in row.items() if "second" not in name}
        for row in read_metrics(run / "metrics.csv")
    ]
    assert timeless(run) == timeless(alone)
    for name in ("best.json", "best.safetensors"):
        assert (run / "checkpoints" / name).read_bytes() == (alone / "checkpoints" / name).read_bytes()
    said = capsys.readouterr().out
    assert said.count("warning: metrics.csv could not be written") == 1
    assert "the best policy is written now" in said


def deleted(run):
    shutil.rmtree(run)


def moved(run):
    run.rename(run.with_name("moved"))


def emptied(run):
    for path in run.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def replaced(run):
    moved(run)
    run.mkdir()
    shutil.copy(run.with_name("moved") / "config.json", run)


@pytest.mark.parametrize("happens", [deleted, moved, emptied, replaced])
def test_a_run_directory_that_goes_away_ends_the_run_and_the_policy_is_saved_elsewhere(tmp_path, monkeypatch, happens):
    class GoesAway(Hooks):
        def before_step(self, trainer):
            if trainer.step == 310:
                happens(run)

    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    policy = elsewhere / "run-policy-000000000350.safetensors"
    with pytest.raises(RunDirectoryError, match=f"ended at step 350, and its policy was saved to {policy}"):
        flashsac.train(
            toy_envs.make_point, run_dir=str(run), quiet=True, hooks=[GoesAway()], **TINY | dict(checkpoint_every=100)
        )
    assert load_policy(policy).task == "custom:make_point"
    assert not (run / "checkpoints").exists(), "nothing pretends to be the run"


def test_without_a_current_directory_the_policy_goes_to_the_temporary_one(tmp_path, monkeypatch):
    run, temporary = tmp_path / "run", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    class GoesAway(Hooks):
        def before_step(self, trainer):
            if trainer.step == 310:
                shutil.rmtree(run)

    before = os.getcwd()
    try:
        run.mkdir()
        os.chdir(run)
        with pytest.raises(RunDirectoryError, match=str(temporary)):
            flashsac.train(toy_envs.make_point, run_dir=str(run), quiet=True, hooks=[GoesAway()], **TINY)
    finally:
        os.chdir(before)
    assert len(list(temporary.glob("run-policy-*"))) == 1


def test_what_a_killed_process_left_is_removed_before_more_room_is_asked_for(tmp_path):
    run = tiny_run(tmp_path / "run", steps=200, checkpoint_every=100)
    pieces = set((run / "replay").iterdir())
    left = [run / "replay" / "000000000200-000000000300-1.safetensors", run / ".writing-1-metrics.csv"]
    left += [
        run / "checkpoints" / ".writing-1-best.safetensors",
        run / "checkpoints" / ".writing-step-000000000300" / "x",
    ]
    left.append(run / "replay" / ".tmpAbCdEf")
    others = run / ".writing-1-policy.onnx"  # `flashsac export` may be writing it just now
    for path in (*left, others):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left")
    resume_run(Run.open(run), toy_envs.make_point, quiet=True).close()
    assert not [path for path in left if path.exists()]
    assert not left[-2].parent.exists()
    assert others.exists()
    assert pieces == set((run / "replay").iterdir())


@pytest.fixture
def small_disk(tmp_path):
    """A disk of two megabytes, where we may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], capture_output=True).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def fill(disk):
    with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


def test_room_for_the_policy_is_reserved(small_disk, capfd):
    """The disk is full to the last byte when the run ends."""
    run, filler = small_disk / "run", small_disk / "filler"

    class Fills(Hooks):
        def after_row(self, trainer, row):
            fill(small_disk)

    alone = run / "checkpoints" / "policy-000000000600.safetensors"
    settings = TINY | dict(checkpoint_every=0, eval=dict(every=0), hooks=[Fills()])
    found: list[bool] = []

    def free() -> None:
        found.append(alone.exists())
        filler.unlink()

    with meanwhile(lambda: "Waiting until" in capfd.readouterr().out, free):
        assert flashsac.train(toy_envs.make_point, run_dir=str(run), **settings).step == 600
    assert found == [True], "the policy was there before there was room again"
    assert len(read_metrics(run / "metrics.csv")) == 12
    assert not (run / ".reserve").exists()


def test_a_policy_that_was_saved_elsewhere_is_removed_once_there_is_a_checkpoint(small_disk, tmp_path, monkeypatch):
    """Somebody else took the room that was reserved."""
    monkeypatch.chdir(tmp_path)
    run, elsewhere = small_disk / "run", tmp_path / "run-policy-000000000600.safetensors"

    class Fills(Hooks):
        def after_row(self, trainer, row):
            (run / ".reserve").unlink(missing_ok=True)
            fill(small_disk)

    settings = TINY | dict(checkpoint_every=0, eval=dict(every=0), hooks=[Fills()], quiet=True)
    with meanwhile(elsewhere.exists, (small_disk / "filler").unlink):
        assert flashsac.train(toy_envs.make_point, run_dir=str(run), **settings).step == 600
    assert checkpoint_steps(run) == [600]
    assert not elsewhere.exists()


def test_a_disk_that_is_unmounted_ends_the_run(small_disk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Unmounts(Hooks):
        def before_step(self, trainer):
            if trainer.step == 310:
                subprocess.run(["umount", "-l", small_disk], check=True)
                subprocess.run(["mount", "-t", "tmpfs", "none", small_disk], check=True)

    with pytest.raises(RunDirectoryError, match="its disk was unmounted"):
        flashsac.train(toy_envs.make_point, run_dir=str(small_disk / "run"), hooks=[Unmounts()], quiet=True, **TINY)
    assert (tmp_path / "run-policy-000000000350.safetensors").exists()
