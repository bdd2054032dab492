"""A new run that starts from another one: from its networks, with its replay, or with everything for more steps."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import flashsac
from flashsac.errors import CheckpointError, FlashSACError
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.layout import checkpoint_folders, step_folder
from flashsac.runs.metrics import TIMINGS, read_metrics
from tests import toy_envs
from tests.helpers import (
    ROOT,
    TINY,
    StopAt,
    checkpoint_steps,
    cli,
    command,
    environment,
    lose_newest_checkpoint,
    tiny_run,
    wait_until,
)

pytestmark = pytest.mark.slow

AGENT = dict(batch_size=16, warmup=100, updates_per_transition=0.25)
"""Without network sizes: those of the parent are taken."""
CHILD = TINY | dict(agent=AGENT, seed=1)
LATE = dict(env=dict(num_envs=2, max_episode_steps=7))
"""Another time limit than the parent's."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    return tiny_run(tmp_path_factory.mktemp("start_from") / "parent", steps=400)


@pytest.fixture
def parent(trained, tmp_path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "parent"))


def child(path: Path, parent: Path, **changes) -> Path:
    flashsac.train(toy_envs.make_point, run_dir=path, from_run=parent, quiet=True, **CHILD | changes)
    return path


def state(run: Path) -> dict[str, torch.Tensor]:
    return load_file(checkpoint_folders(run / "checkpoints")[0] / "state.safetensors")


def rows(run: Path) -> list[dict[str, float]]:
    found = read_metrics(run / "metrics.csv")
    return [{name: value for name, value in row.items() if name not in TIMINGS} for row in found]


def replay_actions(run: Path) -> torch.Tensor:
    checkpoint, _ = CheckpointStore(run, json.loads((run / "config.json").read_text())["task"]).load()
    return torch.cat([load_file(run / "replay" / piece["file"])["action"] for piece in checkpoint.pieces])


def assert_equal_runs(one: Path, other: Path) -> None:
    assert rows(one) == rows(other)
    a, b = state(one), state(other)
    assert a.keys() == b.keys()
    assert not [name for name in a if not a[name].equal(b[name])]


def test_networks_and_statistics_are_the_parents_and_the_schedule_is_fresh(tmp_path, parent):
    begun = child(tmp_path / "child", parent, hooks=[StopAt(0)], keep_checkpoints=2, **LATE)
    assert checkpoint_steps(begun) == [2, 0], "the second is from before the first step"
    ours, theirs = load_file(begun / "checkpoints" / step_folder(0) / "state.safetensors"), state(parent)
    kept = [name for name in theirs if name.startswith("/agent/learner/") and "optimizer" not in name]
    kept.append("/agent/reward_scale/stats")
    assert {name.split("/")[3] for name in kept} == {"actor", "critic", "target", "log_temperature", "stats"}
    assert any("running_mean" in name for name in kept)
    assert not [name for name in kept if not ours[name].equal(theirs[name])]
    moments = [tensor for name, tensor in ours.items() if "optimizer" in name]
    assert moments
    assert not any(moment.any() for moment in moments)
    assert len(replay_actions(parent)) == 200
    first = rows(begun)[0]
    assert (first["step"], first["updates"], first["learning_rate"]) == (0, 0, 3e-4)
    assert "eval_return" in first, "the policy as it was loaded, on the new task"
    assert first["eval_length"] == 7


def test_config_names_the_parent(tmp_path, parent):
    begun = child(tmp_path / "child", parent, hooks=[StopAt(0)])
    record = json.loads((begun / "config.json").read_text())
    manifest = checkpoint_folders(parent / "checkpoints")[0] / "manifest.json"
    assert record["parent"]["run"] == str(parent)
    assert record["parent"]["step"] == 400
    assert record["parent"]["sha256"] == hashlib.sha256(manifest.read_bytes()).hexdigest()
    assert record["config"]["agent"]["critic_width"] == 8, "not the preset's"


def test_the_loaded_policy_collects_the_warm_up(tmp_path, parent):
    """Random actions would be the same for every parent."""
    other = tiny_run(tmp_path / "other", steps=400, seed=5)
    collected = [
        replay_actions(child(tmp_path / name, run, hooks=[StopAt(58)]))
        for name, run in (("a", parent), ("b", other), ("c", parent))
    ]
    assert len(collected[0]) == 30
    assert not collected[0][0].equal(collected[1][0])
    assert collected[0].equal(collected[2])


def test_progress_says_who_collects_the_warm_up(tmp_path, parent, capfd):
    flashsac.train(toy_envs.make_point, run_dir=tmp_path / "child", from_run=parent, **CHILD)
    first = next(line for line in capfd.readouterr().out.splitlines() if line.startswith("step "))
    assert re.fullmatch(r"step +0/600  evaluated \S+  success 0%  steps of the loaded policy", first), (
        "no speed before the first step"
    )


def test_another_number_of_environments(tmp_path, parent):
    assert rows(child(tmp_path / "child", parent, env=dict(num_envs=5)))[-1]["step"] == 600


@pytest.mark.parametrize("replay", [False, True])
def test_cut_off_and_resumed_equals_left_alone_also_without_the_parent(tmp_path, parent, replay):
    settings = dict(checkpoint_every=200, from_replay=replay, **LATE)
    alone = child(tmp_path / "alone", parent, **settings)
    cut = child(tmp_path / "cut", parent, **settings)
    early = child(tmp_path / "early", parent, hooks=[StopAt(0)], **settings)
    shutil.rmtree(parent)
    lose_newest_checkpoint(cut)
    for run in (cut, early):
        flashsac.resume(run, toy_envs.make_point, quiet=True)
        assert_equal_runs(alone, run)


def test_killed_before_its_second_checkpoint_equals_left_alone(tmp_path):
    """kill -9 after the row of step 0, which must not be there twice."""
    settings = (
        "--preset laptop --steps 400 --compile off --precision fp32 --no-video --env.num-envs 2 --agent.batch-size 16 "
        "--agent.warmup 50 --eval.every 200 --eval.episodes 1 --log-every 4 --checkpoint-every 0"
    ).split()
    widths = "--agent.critic-width 8 --agent.actor-width 8".split()
    cli("train", "gym:Pendulum-v1", *settings, *widths, "--run-dir", "parent", cwd=tmp_path)
    start = ["train", "gym:Pendulum-v1", "--from", "parent", *settings]
    cli(*start, "--run-dir", "alone", cwd=tmp_path)
    killed = tmp_path / "killed"
    begin = command(*start, "--run-dir", "killed")
    process = subprocess.Popen(begin, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL)
    assert wait_until(lambda: process.poll() is not None or len(read_metrics(killed / "metrics.csv")) > 3)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert checkpoint_steps(killed) == [0], "killed in time"
    shutil.rmtree(tmp_path / "parent")
    cli("resume", "killed", cwd=tmp_path)
    assert_equal_runs(tmp_path / "alone", killed)


def test_killed_before_its_first_checkpoint_starts_from_the_parent_again(tmp_path, parent):
    alone, killed = (child(tmp_path / name, parent) for name in ("alone", "killed"))
    shutil.rmtree(killed / "checkpoints")
    flashsac.resume(killed, toy_envs.make_point, quiet=True)
    assert_equal_runs(alone, killed)
    shutil.rmtree(killed / "checkpoints")
    shutil.rmtree(parent)
    with pytest.raises(CheckpointError, match=r"gone or has changed.*--from RUN"):
        flashsac.resume(killed, toy_envs.make_point, quiet=True)


def test_the_replay_comes_along(tmp_path, parent):
    changed = dict(agent={name: value for name, value in AGENT.items() if name != "warmup"}, log_every=2)
    begun = child(tmp_path / "child", parent, from_replay=True, steps=100, **changed)
    actions, theirs = replay_actions(begun), replay_actions(parent)
    assert actions[:200].equal(theirs), "also where the run itself is shorter"
    assert len(actions) == 250
    assert rows(begun)[-1]["updates"] == 25, "it learns from its first step on"
    assert rows(begun)[-1]["learning_rate"] == pytest.approx(1.5e-4)


def test_what_does_not_fit_is_refused(tmp_path, parent):
    def start(task=toy_envs.make_point, **changes):
        flashsac.train(task, run_dir=tmp_path / "child", quiet=True, **CHILD | dict(from_run=parent) | changes)

    wider = dict(agent=AGENT | dict(critic_width=16, batch_norm=False))
    match = r"has --agent.critic-width 16 --agent.no-batch-norm, that one --agent.critic-width 8 --agent.batch-norm"
    with pytest.raises(FlashSACError, match=match):
        start(**wider)
    with pytest.raises(FlashSACError, match=r"here they are .*'actor': 3.*'action_dim': 1.*there .*'actor': 2"):
        start("gym:Pendulum-v1")
    with pytest.raises(FlashSACError, match=r"2 environments, this run has 4. Take --env.num-envs 2"):
        start(env=dict(num_envs=4), from_replay=True)
    with pytest.raises(FlashSACError, match="name that run with --from"):
        start(from_run=None, from_replay=True)
    with pytest.raises(CheckpointError, match="holds the actor alone"):
        start(from_run=parent / "checkpoints" / "best.safetensors")
    shutil.rmtree(parent / "checkpoints")
    with pytest.raises(CheckpointError, match="it has saved none yet"):
        start()
    assert not (tmp_path / "child").exists(), "nothing is left of what could not begin"


def test_a_damaged_checkpoint_gives_way_to_an_older_one(tmp_path):
    parent = tiny_run(tmp_path / "parent", steps=400, checkpoint_every=200)
    newest = checkpoint_folders(parent / "checkpoints")[0]
    (newest / "state.safetensors").write_bytes(b"")
    begun = child(tmp_path / "child", parent, hooks=[StopAt(0)])
    assert json.loads((begun / "config.json").read_text())["parent"]["step"] == 200
    assert newest.exists(), "the parent is not touched"


def test_a_run_of_version_0_1(tmp_path):
    settings = CHILD | dict(run_dir=tmp_path / "child", from_run=ROOT / "tests" / "data" / "run-0.1", quiet=True)
    assert flashsac.train("gym:Pendulum-v1", **settings).step == 600


def test_no_code_of_the_parent_runs(tmp_path):
    settings = (
        "--preset laptop --compile off --precision fp32 --no-video --env.num-envs 2 --agent.batch-size 16".split()
    )
    module = tmp_path / "theirs.py"
    module.write_text("import gymnasium\nmake = lambda: gymnasium.make('Pendulum-v1')\n")
    first = "--steps 100 --agent.warmup 50 --agent.critic-width 8 --agent.actor-width 8 --run-dir parent".split()
    cli("train", "theirs:make", *settings, *first, cwd=tmp_path)
    module.write_text("raise SystemExit('code of the run was executed')\n")
    then = "--from parent --steps 100 --agent.warmup 50 --run-dir child".split()
    cli("train", "gym:Pendulum-v1", *settings, *then, cwd=tmp_path)
    assert checkpoint_steps(tmp_path / "child")[0] == 100


def test_more_steps_go_on_with_everything(tmp_path, parent):
    before = {path: path.read_bytes() for path in parent.rglob("*") if path.is_file()}
    result = flashsac.resume(parent, toy_envs.make_point, steps=800, new_run_dir=tmp_path / "more", quiet=True)
    assert (result.run_dir, result.step) == (tmp_path / "more", 800)
    assert {path: path.read_bytes() for path in before} == before
    old, new = rows(parent), rows(tmp_path / "more")
    assert new[: len(old)] == old
    assert new[len(old)]["step"] == 450
    assert new[-1]["updates"] == pytest.approx(175, abs=1)
    assert new[len(old)]["learning_rate"] > old[-1]["learning_rate"], "the schedule of a run of 800 steps"
    assert new[-1]["learning_rate"] == pytest.approx(1.5e-4)
    assert replay_actions(tmp_path / "more")[:200].equal(replay_actions(parent))
    record = json.loads((tmp_path / "more" / "config.json").read_text())
    assert (record["parent"]["step"], record["parent"]["contents"]) == (400, "everything")
    assert record["config"]["steps"] == 800


def test_more_steps_cut_off_and_resumed_equal_left_alone(tmp_path, parent):
    begun = child(tmp_path / "begun", parent, from_replay=True)
    for name, hooks in (("alone", []), ("cut", [StopAt(650)])):
        settings = dict(steps=900, new_run_dir=tmp_path / name, hooks=hooks, quiet=True)
        flashsac.resume(begun, toy_envs.make_point, **settings)
    shutil.rmtree(begun)
    shutil.rmtree(parent)
    flashsac.resume(tmp_path / "cut", toy_envs.make_point, quiet=True)
    assert_equal_runs(tmp_path / "alone", tmp_path / "cut")
    assert len(replay_actions(tmp_path / "alone")) == 200 + 450, "the copied transitions stay"


def test_more_steps_than_there_are(tmp_path, parent):
    with pytest.raises(FlashSACError, match=r"at step 400 already.*--steps 800"):
        flashsac.resume(parent, toy_envs.make_point, steps=400, new_run_dir=tmp_path / "more", quiet=True)
    with pytest.raises(FlashSACError, match="give --steps too"):
        flashsac.resume(parent, toy_envs.make_point, new_run_dir=tmp_path / "more", quiet=True)
    assert not (tmp_path / "more").exists()


def test_a_finished_run_names_the_command_for_more_steps(parent, capsys):
    flashsac.resume(parent, toy_envs.make_point)
    assert f"flashsac resume {parent} --steps 800" in capsys.readouterr().out
