"""A power cut at any moment leaves a run that goes on: recorded from a real run, replayed cut at every write."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flashsac.policies.find import load_policy
from flashsac.runs.best import best_score
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.directory import read_config
from flashsac.runs.metrics import read_metrics
from tests.helpers import PATIENCE, environment
from tests.runs import power_cut

pytestmark = pytest.mark.slow

TRAINING = """
import os, sys
import flashsac
from flashsac.training.hooks import Hooks
from tests import toy_envs
from tests.helpers import TINY, StopAt

class Tells(Hooks):
    def after_save(self, trainer, checkpoint):
        os.write(1, f"saved {trainer.step} {trainer.session.best.score.value}\\n".encode())

settings = TINY | dict(steps=300, checkpoint_every=100, keep_checkpoints=1, eval=dict(every=100, episodes=2), quiet=True)
flashsac.train(toy_envs.make_point, run_dir=sys.argv[1], hooks=[Tells(), StopAt(200)], **settings)
flashsac.resume(sys.argv[1], toy_envs.make_point, hooks=[Tells()], quiet=True)
"""
"""Step 200 is saved twice: when it is due, and when the run stops there. Then the run is resumed."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The system calls of a small run, and the directory in which it ran."""
    folder = tmp_path_factory.mktemp("recorded")
    if shutil.which("strace") is None or subprocess.run(["strace", "-qq", "-o", folder / "x", "true"]).returncode:
        pytest.skip("strace is missing or not allowed here: sudo apt-get install strace")
    root, trace = folder / "disk", folder / "trace"
    root.mkdir()
    command = [*power_cut.STRACE, "-o", str(trace), sys.executable, "-c", TRAINING, str(root / "runs" / "run")]
    subprocess.run(command, check=True, env=environment(), timeout=PATIENCE, stdout=subprocess.DEVNULL)
    return root, trace


def write(left: dict[str, bytes | None], folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in left.items():
        (folder / name).mkdir() if content is None else (folder / name).write_bytes(content)


def check(run: Path, saved: int, best: float) -> None:
    """The run in this directory goes on from `saved` or later, and has everything that belongs to it."""
    assert read_config(run)[0] == "custom:make_point"
    checkpoint, problems = CheckpointStore(run, "custom:make_point").load()
    assert checkpoint.step >= saved
    assert not problems
    assert json.loads((run / "checkpoints" / "best.json").read_text())
    assert best_score(run).value >= best
    load_policy(run, "best")
    load_policy(run, "last")
    steps = [row["step"] for row in read_metrics(run / "metrics.csv") if row["step"] <= checkpoint.step]
    assert steps == list(range(50, checkpoint.step + 1, 50))


def test_the_replay_is_what_happened(recorded, tmp_path):
    """Otherwise the other test would show nothing."""
    root, trace = recorded
    disk = power_cut.Disk(root)
    for call in power_cut.calls(trace):
        disk.apply(*call)
    left = {name: content for name, content in disk.after_a_cut(power_cut.ALL).items() if not name.endswith(".lock")}
    there = {str(path.relative_to(root)): path for path in root.rglob("*") if path.name != ".lock"}
    assert left.keys() == there.keys()
    for name, content in left.items():
        assert content is None or content == there[name].read_bytes(), name


def test_a_power_cut_at_any_moment_loses_nothing_that_was_saved(recorded, tmp_path):
    root, trace = recorded
    rng, seen, cuts = random.Random(0), set(), 0
    disk, saved = power_cut.Disk(root), (0, -float("inf"))
    fixed = [power_cut.NOTHING_SINCE_SYNC, power_cut.NAMES_WITHOUT_DATA, power_cut.NAMES_AND_ZEROS, power_cut.ALL]
    for name, arguments, result in power_cut.calls(trace):
        changed = disk.apply(name, arguments, result)
        if name == "write" and (said := power_cut.text_of(arguments[1])).startswith("saved "):
            saved = int(said.split()[1]), float(said.split()[2])
            changed = True
        if not saved[0] or not changed:
            continue
        for choice in (*fixed, *(power_cut.at_random(rng) for _ in range(4))):
            left = disk.after_a_cut(choice)
            cuts += 1
            if (key := hash((saved, *left.items()))) not in seen:
                seen.add(key)
                write(left, tmp_path / "disk")
                check(tmp_path / "disk" / "runs" / "run", *saved)
    assert saved[0] == 300
    assert cuts > 1000


def test_a_power_cut_before_the_first_checkpoint_leaves_nothing_that_hinders(recorded, tmp_path):
    """No checkpoint, or a whole one; settings that can be read, or none."""
    root, trace = recorded
    rng, disk = random.Random(0), power_cut.Disk(root)
    for name, arguments, result in power_cut.calls(trace):
        if name == "write" and power_cut.text_of(arguments[1]).startswith("saved "):
            return
        if not disk.apply(name, arguments, result):
            continue
        for choice in (power_cut.NOTHING_SINCE_SYNC, power_cut.NAMES_WITHOUT_DATA, power_cut.at_random(rng)):
            write(disk.after_a_cut(choice), tmp_path / "disk")
            run = tmp_path / "disk" / "runs" / "run"
            if (run / "config.json").exists():
                assert read_config(run)[0] == "custom:make_point"
            read_metrics(run / "metrics.csv")
            store = CheckpointStore(run, "custom:make_point")
            assert store.newest is None or store.load()[1] == []
    raise AssertionError("nothing was saved")
