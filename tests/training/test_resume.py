"""Interrupted and resumed equals never interrupted: real processes, really killed."""

from __future__ import annotations

import csv
import dataclasses
import os
import random
import shutil
import signal
import subprocess
import time
import types
from pathlib import Path

import pytest
from safetensors.torch import load_file

import flashsac
from flashsac.errors import CheckpointError
from flashsac.policies.evaluation import Evaluator
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.directory import Run
from flashsac.runs.layout import checkpoint_folders
from flashsac.runs.metrics import TIMINGS, read_metrics
from flashsac.sims.vector.sequential import SequentialVecEnv
from flashsac.training.start import resume_run
from tests import toy_envs
from tests.helpers import (
    PATIENCE,
    TINY,
    StopAt,
    checkpoint_steps,
    cli,
    command,
    environment,
    lose_newest_checkpoint,
    tiny_run,
)

pytestmark = pytest.mark.slow

HOPPER = (
    "train mujoco:Hopper-v4 --preset single --steps 900 --seed 7 --agent.warmup 150 --agent.batch-size 32 "
    "--agent.critic-width 16 --agent.actor-width 8 --eval.every 300 --eval.episodes 3 "
    "--checkpoint-every 100 --log-every 50 --no-video"
).split()


CARTPOLE = (
    "train dmc-vision:cartpole-balance --preset vision --steps 300 --seed 7 --agent.warmup 60 --agent.batch-size 8 "
    "--agent.critic-width 16 --agent.actor-width 8 --agent.image-channels 4 --env.image-size 24 --eval.every 150 --eval.episodes 1 "
    "--env.max-episode-steps 45 --replay.capacity 200 --checkpoint-every 40 --log-every 20 --compile off --no-video"
).split()


def metrics(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="") as file:
        return [{key: value for key, value in row.items() if key not in TIMINGS} for row in csv.DictReader(file)]


def final_state(run: Path) -> dict:
    newest = checkpoint_folders(run / "checkpoints")[0]
    return load_file(newest / "state.safetensors")


def assert_equal_runs(one: Path, other: Path) -> None:
    assert metrics(one) == metrics(other)
    a, b = final_state(one), final_state(other)
    assert a.keys() == b.keys()
    different = [name for name in a if not a[name].equal(b[name]) and "seconds" not in name]
    assert not different, f"these differ after resuming: {different}"


@pytest.mark.parametrize(
    "arguments",
    [[*HOPPER, "--compile", "off"], [*HOPPER, "--precision", "bf16"], CARTPOLE],
    ids=["state", "compiled-bf16", "images"],
)
def test_killed_again_and_again_equals_left_alone(tmp_path, arguments):
    """kill -9 at random moments; `flashsac resume` each time; the same metrics and the same bits in every weight."""
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    cli(*arguments, "--run-dir", str(alone))
    rng = random.Random(0)
    begin = command(*arguments, "--run-dir", str(killed))
    process = subprocess.Popen(begin, env=environment(), stdout=subprocess.DEVNULL)
    kills = 0
    while kills < 3:
        reached = checkpoint_steps(killed)[0] if checkpoint_steps(killed) else 0
        deadline = time.time() + PATIENCE
        while process.poll() is None and time.time() < deadline:
            now = checkpoint_steps(killed)
            if now and now[0] > reached:
                break
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.3))
        if process.poll() is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kills += 1
        process = subprocess.Popen(command("resume", str(killed)), env=environment(), stdout=subprocess.DEVNULL)
    assert process.wait(timeout=PATIENCE) == 0
    assert kills, "the run ended before it could be killed"
    assert_equal_runs(alone, killed)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_say_how_to_resume(tmp_path, number):
    alone, stopped = tmp_path / "alone", tmp_path / "stopped"
    cli(*HOPPER, "--compile", "off", "--run-dir", str(alone))
    arguments = [*HOPPER, "--compile", "off", "--run-dir", str(stopped)]
    process = subprocess.Popen(command(*arguments), env=environment(), stdout=subprocess.PIPE, text=True)
    deadline = time.time() + PATIENCE
    while not checkpoint_steps(stopped) and time.time() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert f"flashsac resume {stopped}" in output
    assert checkpoint_steps(stopped)[0] < 900
    cli("resume", str(stopped))
    assert_equal_runs(alone, stopped)


def test_ctrl_c_in_an_evaluation_leaves_it_to_the_resumed_run(tmp_path, monkeypatch, capsys):
    """It ends with the next step of the episode, not with the last, and what was not measured is measured later."""
    alone = tiny_run(tmp_path / "alone", env=dict(num_envs=1))
    evaluate, stopped, evaluations = Evaluator.evaluate, tmp_path / "stopped", []

    def interrupted(evaluator, policy):
        evaluations.append(evaluator)
        if len(evaluations) == 2:
            act = lambda obs: os.kill(os.getpid(), signal.SIGINT) or policy.act(obs)
            return evaluate(evaluator, types.SimpleNamespace(act=act))
        return evaluate(evaluator, policy)

    monkeypatch.setattr(Evaluator, "evaluate", interrupted)
    result = flashsac.train(toy_envs.make_point, run_dir=str(stopped), **TINY | dict(env=dict(num_envs=1)))
    assert result.interrupted
    assert "stopping: saving a checkpoint (once more to stop at once)" in capsys.readouterr().out
    assert checkpoint_steps(stopped)[0] == 400
    assert [row["step"] for row in read_metrics(stopped / "metrics.csv") if "eval_return" in row] == [200]
    flashsac.resume(stopped, toy_envs.make_point, quiet=True)
    assert_equal_runs(alone, stopped)


def test_ctrl_c_in_the_last_step_leaves_the_last_evaluation_to_the_resumed_run(tmp_path):
    alone = tiny_run(tmp_path / "alone", env=dict(num_envs=1))
    stopped, settings = tmp_path / "stopped", TINY | dict(env=dict(num_envs=1), hooks=[StopAt(599)])
    assert flashsac.train(toy_envs.make_point, run_dir=str(stopped), **settings).interrupted
    assert checkpoint_steps(stopped)[0] == 600
    result = flashsac.resume(stopped, toy_envs.make_point, quiet=True)
    assert not result.interrupted
    assert result.row["step"] == 600
    assert_equal_runs(alone, stopped)
    assert flashsac.resume(stopped, toy_envs.make_point, quiet=True).was_finished


@pytest.mark.parametrize("task", ["dmc:cartpole-balance", "gym:Pendulum-v1"])
def test_exact_resume_of_other_simulators(tmp_path, task):
    settings = TINY | dict(steps=300, env=dict(num_envs=1), eval=dict(every=0), log_every=20, quiet=True)
    flashsac.train(task, run_dir=str(tmp_path / "alone"), **settings)
    flashsac.train(task, run_dir=str(tmp_path / "cut"), **settings | {"checkpoint_every": 100})
    lose_newest_checkpoint(tmp_path / "cut")
    flashsac.resume(tmp_path / "cut", quiet=True)
    assert_equal_runs(tmp_path / "alone", tmp_path / "cut")


def test_n_step_windows_survive(tmp_path):
    agent = TINY["agent"] | {"n_step": 3}
    settings = dict(agent=agent, checkpoint_every=100, steps=400, env=dict(num_envs=2))
    alone = tiny_run(tmp_path / "alone", **settings)
    cut = tiny_run(tmp_path / "cut", **settings)
    lose_newest_checkpoint(cut)
    flashsac.resume(cut, toy_envs.make_point, quiet=True)
    assert_equal_runs(alone, cut)


def test_a_simulator_without_saved_state_restarts_episodes_and_says_so(tmp_path, capfd):
    settings = TINY | dict(steps=600, env=dict(num_envs=2, engine="envpool"), checkpoint_every=100, eval=dict(every=0))
    run = tmp_path / "run"
    flashsac.train("mujoco:Hopper-v4", run_dir=str(run), quiet=True, **settings)
    lose_newest_checkpoint(run)
    assert flashsac.resume(run).step == 600
    assert "episodes begin anew" in capfd.readouterr().out
    # The step before the cut is truncated now, and stays so in the checkpoints written since.
    checkpoint, _ = CheckpointStore(run, "mujoco:Hopper-v4").load()
    pieces = [load_file(run / "replay" / piece["file"]) for piece in checkpoint.pieces if piece["stop"] > 249]
    firsts = [piece["first"] for piece in checkpoint.pieces if piece["stop"] > 249]
    row = next(
        piece["flags"][249 - first] for first, piece in reversed(list(zip(firsts, pieces, strict=True))) if first <= 249
    )
    assert (row != 0).all(), "every episode that was open at step 250 has an end"


def test_killed_before_the_first_checkpoint_starts_over(tmp_path, capfd):
    alone = tiny_run(tmp_path / "alone", steps=200)
    killed = tiny_run(tmp_path / "killed", steps=200)
    shutil.rmtree(killed / "checkpoints")
    flashsac.resume(killed, toy_envs.make_point)
    assert "starting from the beginning" in capfd.readouterr().out
    assert_equal_runs(alone, killed)


def test_resuming_with_another_environment_is_refused(tmp_path):
    run = tiny_run(tmp_path / "run", steps=200, checkpoint_every=100)
    lose_newest_checkpoint(run)
    with pytest.raises(CheckpointError, match="the environment now has"):
        flashsac.resume(run, toy_envs.Privileged, quiet=True)


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    run = tiny_run(tmp_path / "run", steps=200)
    before = metrics(run)
    flashsac.resume(run, toy_envs.make_point, quiet=True)
    assert metrics(run) == before


def test_a_simulator_that_throws_costs_nothing_that_was_learned(tmp_path):
    settings = TINY | dict(steps=600, env=dict(num_envs=1), checkpoint_every=0, eval=dict(every=0), quiet=True)
    with pytest.raises(ZeroDivisionError):
        flashsac.train(toy_envs.Breaks, **settings, run_dir=str(tmp_path))
    assert checkpoint_steps(tmp_path) == [300]
    result = flashsac.resume(tmp_path, lambda: toy_envs.Breaks(after=1000), quiet=True)
    assert result.step == 600
    steps = [row["step"] for row in read_metrics(tmp_path / "metrics.csv")]
    assert steps == sorted(set(steps))


def test_a_late_resume_seeds_within_what_numpy_takes(tmp_path, monkeypatch):
    """dm_control and mjlab hand their seed to NumPy, which refuses 2**32 and more."""
    run = tiny_run(tmp_path / "run", steps=200, checkpoint_every=0)
    seeds = []
    monkeypatch.setattr(SequentialVecEnv, "load_state_dict", lambda self, state: False)
    reset = SequentialVecEnv.reset
    monkeypatch.setattr(SequentialVecEnv, "reset", lambda self, seed: seeds.append(seed) or reset(self, seed))
    load = CheckpointStore.load
    monkeypatch.setattr(CheckpointStore, "load", lambda self: _moved(load(self), 10**12))
    resume_run(Run.open(run), toy_envs.make_point, quiet=True).close()
    assert len(seeds) == 1
    assert 0 <= seeds[0] < 2**31


def _moved(loaded, step):
    checkpoint, problems = loaded
    return dataclasses.replace(checkpoint, step=step), problems
