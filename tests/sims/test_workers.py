"""Environments in processes: the same numbers as in one process, and nothing left behind however it ends."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from flashsac.errors import BadSimulation, MissingExtra
from flashsac.sims.base import OverlappingVecEnv
from flashsac.sims.check import check_env
from flashsac.sims.vector import workers as workers_module
from flashsac.sims.vector.sequential import SequentialVecEnv
from flashsac.sims.vector.workers import WorkerVecEnv
from tests.helpers import environment, wait_until
from tests.sims.worker_envs import DescribedPoint, Faulty, Threads, broken_on_making, cannot_be_made

pytestmark = pytest.mark.slow


@pytest.fixture
def make():
    """Makes environments and closes them, whatever the test did to them."""
    made = []

    def build(factory, num_envs=2):
        made.append(WorkerVecEnv(factory, num_envs))
        return made[-1]

    yield build
    for env in made:
        env.close()


def actions(steps, num_envs, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [2 * torch.rand(num_envs, 2, generator=generator) - 1 for _ in range(steps)]


def push(env, steps):
    for _ in range(steps):
        env.step(torch.zeros(env.spec.num_envs, 2))


def worker_ids(env) -> list[int]:
    return [process.pid for process in env._processes]


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("name", ["PointEnv", "Privileged"])
def test_check_env(make, name):
    env = make(functools.partial(DescribedPoint, name), 2)
    assert isinstance(env, OverlappingVecEnv)
    check_env(env, steps=45)


def test_the_same_numbers_as_in_one_process(make):
    factory = functools.partial(DescribedPoint, "PointEnv", 3.0)
    env = make(factory, 3)
    plain = SequentialVecEnv(factory, env.spec)
    assert torch.equal(env.reset(5)["actor"], plain.reset(5)["actor"])
    for action in actions(45, 3):
        ours, theirs = env.step(action), plain.step(action)
        for mine, other in zip(ours[:6], theirs[:6], strict=True):
            pairs = zip(mine.values(), other.values(), strict=True) if isinstance(mine, dict) else [(mine, other)]
            assert all(torch.equal(a, b) for a, b in pairs)
        assert np.array_equal(ours.info["success"], theirs.info["success"])


def test_what_only_some_of_them_report_is_nan_for_the_others(make):
    """Success that is told when an episode ends, of which some take three steps and some four."""
    factory = functools.partial(DescribedPoint, "JudgedAtTheEnd")
    env = make(factory, 3)
    plain = SequentialVecEnv(factory, env.spec)
    env.reset(0), plain.reset(0)
    told = []
    for action in actions(12, 3):
        ours, theirs = env.step(action), plain.step(action)
        assert ours.info.keys() == theirs.info.keys()
        assert np.array_equal(ours.info.get("success", []), theirs.info.get("success", []), equal_nan=True)
        if ours.truncated.any():
            assert np.array_equal(np.isnan(ours.info["success"]), ~ours.truncated.numpy())
            told.append(ours.truncated.all().item())
    assert not all(told), "nothing was learned of steps in which only some ended"


def test_final_observations_are_true_and_episodes_truncated(make):
    env = make(DescribedPoint)
    env.reset(0)
    steps = [env.step(torch.full((2, 2), 0.1)) for _ in range(20)]
    assert [step.truncated.tolist() for step in steps] == [[False] * 2] * 19 + [[True] * 2]
    assert not any(step.terminated.any() for step in steps)
    # A push moves the point by a fifth of it: once more in the last step; and the next episode begins elsewhere.
    assert torch.allclose(steps[-1].final_obs["actor"], steps[-2].obs["actor"] + 0.02, atol=1e-6)
    assert (steps[-1].obs["actor"] != steps[-1].final_obs["actor"]).all()


def test_saved_by_one_and_loaded_by_another(make):
    first, second = make(DescribedPoint), make(DescribedPoint)
    first.reset(0)
    second.reset(9)
    for action in actions(27, 2):
        first.step(action)
    assert second.load_state_dict(first.state_dict())
    for action in actions(30, 2, seed=1):
        assert torch.equal(first.step(action).obs["actor"], second.step(action).obs["actor"])


def test_a_simulator_that_hangs_is_noticed(make, monkeypatch):
    env = make(functools.partial(Faulty, "hang"))
    env.reset(0)
    for action in actions(2, 2):
        env.step(action)
    monkeypatch.setattr(workers_module, "PATIENCE", 1.0)
    with pytest.raises(BadSimulation, match="has not answered"):
        env.step(torch.zeros(2, 2))  # this one never ends


def test_send_returns_before_the_step_is_done(make):
    env = make(functools.partial(Faulty, "hang"))
    env.reset(0)
    action = torch.ones(2, 2)
    env.send(action)
    action.zero_()  # ours again: must not change the step that was begun
    assert (env.receive().reward < 0).all()
    env.step(action)
    env.send(action)  # this step never ends: what waited for it would never get to the next line
    workers = worker_ids(env)
    env.close()
    assert all(gone(pid) for pid in workers), "a worker that hangs must be killed"


def test_one_thread_each_and_ours_are_untouched(make):
    before = os.environ.get("OMP_NUM_THREADS"), sys.modules["__main__"]
    env = make(Threads)
    assert (os.environ.get("OMP_NUM_THREADS"), sys.modules["__main__"]) == before
    env.reset(0)
    info = env.step(torch.zeros(2, 2)).info
    assert info["threads"].tolist() == info["omp"].tolist() == [1, 1]
    assert sorted(info["pid"].tolist()) == sorted(worker_ids(env))


def test_a_picture_comes_from_the_first(make):
    assert make(DescribedPoint).render().shape == (4, 6, 3)


def test_a_killed_worker_is_named_with_the_cause(make):
    env = make(DescribedPoint)
    env.reset(0)
    os.kill(worker_ids(env)[1], signal.SIGKILL)
    with pytest.raises(BadSimulation, match=r"environment 1 was killed by SIGKILL.*memory.*num-envs.*resume"):
        push(env, 2)  # the first step may still have been answered


def test_a_worker_that_ends_by_itself(make):
    env = make(functools.partial(Faulty, "exit"))
    env.reset(0)
    with pytest.raises(BadSimulation, match="ended with exit code 5"):
        push(env, 3)


def test_an_exception_arrives_with_its_traceback(make):
    env = make(functools.partial(Faulty, "raise"))
    env.reset(0)
    with pytest.raises(BadSimulation, match=r"(?s)environment-0.*the arm is on fire.*worker_envs\.py"):
        push(env, 3)


def test_a_worker_that_calls_sys_exit_is_an_error(make):
    env = make(functools.partial(Faulty, "sys.exit"))
    env.reset(0)
    with pytest.raises(BadSimulation, match=r"(?s)environment-0 failed: SystemExit.*worker_envs\.py"):
        push(env, 3)


def test_an_environment_that_cannot_be_made():
    children = set(psutil.Process().children())
    with pytest.raises(MissingExtra, match="on holiday"):
        WorkerVecEnv(cannot_be_made, 2)
    with pytest.raises(BadSimulation, match="no such robot"):
        WorkerVecEnv(broken_on_making, 1)
    left = [
        child for child in set(psutil.Process().children()) - children if "resource_tracker" not in str(child.cmdline())
    ]
    assert not left


def test_workers_ignore_the_signals_that_stop_a_run(make):
    """Ctrl-C reaches every process of the terminal; the run still needs its environments to end well."""
    env = make(DescribedPoint)
    env.reset(0)
    for pid in worker_ids(env):
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
    time.sleep(0.3)
    assert env.step(torch.zeros(2, 2)).valid.all()


SCRIPT = """
import sys, time, functools, torch
from flashsac.sims.vector.workers import WorkerVecEnv
from tests.sims.worker_envs import Faulty

env = WorkerVecEnv(functools.partial(Faulty, sys.argv[1]), 2)
env.reset(0)
env.step(torch.zeros(2, 2))
print(*[process.pid for process in env._processes], env._rows.name, flush=True)
if sys.argv[1] == "hang":
    env.step(torch.zeros(2, 2))
    env.send(torch.zeros(2, 2))
if sys.argv[2] == "wait":
    time.sleep(600)
"""
"""Without a guard for __main__, as users write them."""


def run_script(tmp_path: Path, fault: str, then: str) -> tuple[subprocess.Popen, list[int], str]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(script), fault, then], env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    *pids, block = process.stdout.readline().split()
    return process, [int(pid) for pid in pids], block


@pytest.mark.parametrize("fault", ["none", "hang"])
def test_no_orphans_when_the_trainer_is_killed(tmp_path, fault):
    process, workers, block = run_script(tmp_path, fault, "wait")
    assert len(workers) == 2
    assert not any(gone(pid) for pid in workers)
    assert not Path("/dev/shm", block).exists(), "the block has no name: nobody needs to remove it"
    process.kill()
    process.wait()
    assert wait_until(lambda: all(gone(pid) for pid in workers)), "workers outlive a trainer that was killed"


def test_a_script_without_a_guard_ends_by_itself_and_takes_its_workers_along(tmp_path):
    process, workers, _ = run_script(tmp_path, "none", "end")
    assert process.wait(60) == 0
    assert wait_until(lambda: all(gone(pid) for pid in workers))
