"""A process of its own finds the same scores as this one, on a real simulator, and its end is noticed."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import psutil
import pytest
import torch

import flashsac
from flashsac.config.schema import EnvConfig, TrainConfig
from flashsac.core.update import Learner
from flashsac.errors import Diverged, EvaluationAbandoned, EvaluationLost, FlashSACError
from flashsac.policies.evaluation import Evaluator
from flashsac.policies.evaluation_process import ProcessEvaluator
from flashsac.policies.policy import Policy, snapshot
from flashsac.runs.metrics import read_metrics
from flashsac.sims.make import make_env, must_evaluate_apart
from flashsac.sims.registry import simulators
from tests.helpers import PATIENCE, ROOT, TINY, environment, wait_until

pytestmark = pytest.mark.slow

pytest.importorskip("mujoco")

TASK, CONFIG = "mujoco:Hopper-v4", EnvConfig(num_envs=1, engine="gymnasium")


TELLING, HANGS = "tests.toy_envs:Telling", "tests.toy_envs:Hangs"


def random_policy(seed: int, task: str = TASK) -> Policy:
    torch.manual_seed(seed)
    spec = make_env(task, CONFIG).spec
    config = TrainConfig()
    learner = Learner(spec, config.agent, torch.device("cpu"))
    return snapshot(learner.actor, learner.encoder, task, spec, config)


@pytest.fixture
def elsewhere():
    evaluator = ProcessEvaluator(TASK, CONFIG, episodes=20, seed=7)
    yield evaluator
    evaluator.close()


@pytest.fixture
def stepped(tmp_path, monkeypatch):
    """A file that is there as soon as `TELLING` is evaluated, by whichever process."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    monkeypatch.setenv("STEPPED", str(tmp_path / "stepped"))
    return tmp_path / "stepped"


def test_scores_equal_those_of_this_process(elsewhere):
    here = Evaluator(TASK, CONFIG, episodes=20, seed=7)
    scores = []
    for seed in (0, 1):  # the second one goes to the same child
        policy = random_policy(seed)
        expected, found = here.evaluate(policy), elsewhere.evaluate(policy)
        for field in dataclasses.fields(expected):
            assert np.array_equal(getattr(found, field.name), getattr(expected, field.name), equal_nan=True), field.name
        scores.append(found.returns)
    assert len(scores[0]) == 20
    assert not np.array_equal(*scores), "the new weights did not arrive"


def test_a_child_that_dies_is_an_error_and_not_a_wait(elsewhere):
    elsewhere.evaluate(random_policy(0))
    os.kill(elsewhere._child.process.pid, signal.SIGKILL)
    with pytest.raises(FlashSACError, match=r"died with code -9[\s\S]*--eval\.every 0"):
        elsewhere.evaluate(random_policy(0))
    assert len(elsewhere.evaluate(random_policy(0)).returns) == 20, "the next evaluation starts a new child"


def test_told_to_stop_it_does_not_wait_for_the_episodes(stepped):
    evaluator, policy = ProcessEvaluator(TELLING, CONFIG, episodes=10**6, seed=7), random_policy(0, TELLING)
    threading.Thread(target=lambda: (wait_until(stepped.exists), evaluator.abandon())).start()
    with pytest.raises(EvaluationAbandoned):
        evaluator.evaluate(policy)
    assert stepped.exists(), "it was told before it had begun"
    assert evaluator.close() is None, "the child is gone already"


def test_a_child_that_hangs_is_killed_and_the_next_evaluation_starts_another(tmp_path, monkeypatch):
    hangs = tmp_path / "hangs"
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    monkeypatch.setenv("HANGS", str(hangs))
    evaluator, policy = ProcessEvaluator(HANGS, CONFIG, episodes=2, seed=7, patience=PATIENCE), random_policy(0, HANGS)
    expected = evaluator.evaluate(policy)
    hangs.touch()
    evaluator.patience = 1.0
    with pytest.raises(EvaluationLost, match=r"not made a step for 1 s[\s\S]*killed[\s\S]*--eval\.every 0"):
        evaluator.evaluate(policy)
    assert evaluator.close() is None, "the child is gone"
    hangs.unlink()
    evaluator.patience = PATIENCE
    assert evaluator.evaluate(policy).returns.tolist() == expected.returns.tolist()
    assert evaluator.close() == 0


def test_void_episodes_are_counted_in_the_child(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    task = "tests.toy_envs:make_nan"
    evaluator, policy = ProcessEvaluator(task, CONFIG, episodes=20, seed=7), random_policy(0, task)
    found, expected = evaluator.evaluate(policy), Evaluator(task, CONFIG, 20, seed=7).evaluate(policy)
    evaluator.close()
    assert found.void == expected.void > 0
    assert found.returns.tolist() == expected.returns.tolist()


def test_a_policy_without_numbers_is_not_sent():
    evaluator, policy = ProcessEvaluator(TASK, CONFIG, episodes=2, seed=7), random_policy(0)
    next(policy.actor.parameters()).data.fill_(float("nan"))
    with pytest.raises(Diverged, match="NaN or Inf in its weights"):
        evaluator.evaluate(policy)
    assert evaluator.close() is None


def test_what_the_child_cannot_do_is_said_in_its_words():
    evaluator = ProcessEvaluator("mujoco:Hopper-v5000", CONFIG, episodes=2, seed=0)
    with pytest.raises(FlashSACError, match="Hopper-v4"):
        evaluator.evaluate(random_policy(0))
    evaluator.close()


def test_a_crash_in_the_child_shows_its_last_line():
    evaluator = ProcessEvaluator(TASK, CONFIG, episodes=None, seed=0)  # a bug, as far as the child can tell
    with pytest.raises(FlashSACError, match="died with code 1: TypeError"):
        evaluator.evaluate(random_policy(0))


def test_close_ends_the_child():
    evaluator = ProcessEvaluator(TASK, CONFIG, episodes=1, seed=0)
    evaluator.close()  # never started: nothing to end
    evaluator.evaluate(random_policy(0))
    assert evaluator.close() == 0
    assert evaluator.close() is None


def test_the_trainer_uses_it_where_the_engine_allows_one_environment(tmp_path, monkeypatch):
    assert not must_evaluate_apart(TASK, CONFIG)
    apart = dataclasses.replace(simulators()["gymnasium"], evaluate_apart=True)
    monkeypatch.setitem(simulators(), "gymnasium", apart)
    assert must_evaluate_apart(TASK, CONFIG)
    monkeypatch.setattr(Evaluator, "__init__", lambda *_, **__: pytest.fail("a second environment in this process"))
    children = []
    start = ProcessEvaluator._start
    monkeypatch.setattr(ProcessEvaluator, "_start", lambda self: children.append(start(self)) or children[-1])
    flashsac.train(TASK, run_dir=str(tmp_path), quiet=True, **TINY | {"env": dict(num_envs=2, engine="gymnasium")})
    rows = [row for row in read_metrics(tmp_path / "metrics.csv") if np.isfinite(row.get("eval_return", np.nan))]
    assert len(rows) == 3
    assert len(children) == 1, "one child serves the whole run"
    assert children[0].process.returncode == 0, "the run ended, and so did its child"


def test_it_ends_with_a_trainer_that_was_killed(stepped):
    """Even in the middle of an evaluation: nobody would read the answer, and its memory is wanted by the run that resumes."""
    trainer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from flashsac.policies.evaluation_process import ProcessEvaluator\n"
            "from tests.policies.test_evaluation_process import CONFIG, TELLING, random_policy\n"
            "evaluator = ProcessEvaluator(TELLING, CONFIG, episodes=10**6, seed=0)\n"
            "evaluator._child = evaluator._start()\n"
            "print(evaluator._child.process.pid, flush=True)\n"
            "evaluator.evaluate(random_policy(0, TELLING))\n",
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert trainer.stdout is not None
    child = psutil.Process(int(trainer.stdout.readline()))
    assert wait_until(stepped.exists), "it never began to evaluate"
    assert child.is_running()
    trainer.kill()
    trainer.wait()
    child.wait(timeout=PATIENCE)
