"""The comparison with PPO is a fair one. Needs rsl-rl-lib, which mjlab's environment has."""

from __future__ import annotations

import json
import time

import pytest
import torch

pytest.importorskip("rsl_rl")

from flashsac.config.schema import EnvConfig
from flashsac.policies.evaluation_process import EVAL_SEED
from flashsac.runs.metrics import read_metrics
from flashsac.sims.make import make_env
from flashsac.types import Step
from tests.helpers import from_file

pytestmark = pytest.mark.slow

ppo = from_file("benchmarks/ppo.py")


def test_evaluation_is_no_training_time_and_comes_once_more_at_the_end(tmp_path, monkeypatch):
    seeds, evaluate = [], ppo.Evaluator.evaluate

    def slowly(evaluator, policy):
        seeds.append(evaluator.seed)
        time.sleep(0.5)
        return evaluate(evaluator, policy)

    monkeypatch.setattr(ppo.Evaluator, "evaluate", slowly)
    began, run = time.monotonic(), tmp_path / "run"
    ppo.train("tests.toy_envs:make_point", run, 1.0, num_envs=2, seed=3, eval_every=0.4, eval_episodes=2, steps_each=12)
    took, rows = time.monotonic() - began, read_metrics(run / "metrics.csv")
    assert len(rows) >= 3, "at the first update, at 0.4 s, perhaps at 0.8 s, at the end"
    assert set(seeds) == {3 + EVAL_SEED}, "the episodes that FlashSAC is judged by"
    assert took > rows[-1]["seconds"] + 0.5 * len(rows)
    assert rows[-1]["seconds"] >= 1.0
    assert 0 < rows[-1]["action_std"] < 2
    assert rows[-1]["step"] % (2 * 12) == 0
    assert json.loads((run / "ppo.json").read_text())["num_steps_per_env"] == 12
    assert {"best.pt", "last.pt", "config.json"} <= {path.name for path in run.iterdir()}
    assert ppo.seconds_of(run) == rows[-1]["seconds"]
    with pytest.raises(SystemExit, match="train it first"):
        ppo.seconds_of(tmp_path)


def test_invalid_steps_are_worth_nothing_and_end_the_episode():
    env = make_env("tests.toy_envs:make_point", EnvConfig(num_envs=4))
    environments, flags = ppo.Environments(env, seed=0), torch.tensor
    obs = env.reset(0)
    reward = flags([1.0, 2.0, float("nan"), 4.0])
    terminated, truncated = flags([False, True, False, False]), flags([False, False, False, True])
    valid = flags([True, True, False, True])
    env.step = lambda actions: Step(obs, reward, terminated, truncated, obs, valid, {})
    _, rewards, ended, extras = environments.step(torch.zeros(4, 2))
    assert rewards.tolist() == [1.0, 2.0, 0.0, 4.0]
    assert ended.tolist() == [False, True, True, True]
    assert extras["time_outs"].tolist() == [False, False, True, True]
    assert environments.episodes.summary()["return"] == pytest.approx((2 + 0 + 4) / 3)


def test_a_simulator_that_returns_nan_does_not_end_it(tmp_path):
    ppo.train("tests.toy_envs:make_nan", tmp_path / "run", 0.1, num_envs=2, eval_episodes=2)
    assert read_metrics(tmp_path / "run" / "metrics.csv")[-1]["episodes"] > 4
