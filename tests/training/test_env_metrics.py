"""Metrics of an environment's own reach metrics.csv and TensorBoard, whatever kind of environment reports them."""

from __future__ import annotations

import csv
import dataclasses
import functools
import math

import gymnasium
import numpy as np
import pytest
import torch

import flashsac
from flashsac.config.schema import EnvConfig
from flashsac.errors import BadSimulation, FlashSACError
from flashsac.runs.metrics import read_metrics
from flashsac.sims.base import autoreset, first_obs
from flashsac.sims.make import make_env
from flashsac.sims.vector.workers import WorkerVecEnv
from flashsac.training.env_metrics import EnvMetrics
from flashsac.types import EnvSpec, Step
from tests import toy_envs
from tests.helpers import TINY, StopAt
from tests.sims.test_rsl_rl import Walk
from tests.sims.worker_envs import Reporting

SETTINGS = TINY | dict(steps=200, log_every=20, eval=dict(every=0), quiet=True)
SPEC = EnvSpec(2, {"actor": 2}, 1, (-1.0,), (1.0,), None, metrics=("height", "success"))


def step(ended: tuple[bool, bool] = (False, False), **info) -> Step:
    over, whole = torch.tensor(ended), torch.ones(2, dtype=torch.bool)
    return Step({}, torch.zeros(2), over, torch.zeros(2, dtype=torch.bool), {}, whole, info)


def test_averages_are_of_the_steps_since_the_last_row_without_nan():
    metrics = EnvMetrics(SPEC)
    metrics.observe(step(height=np.array([1.0, math.nan])))
    metrics.observe(step(height=torch.tensor([2.0, 6.0])))
    metrics.observe(step())
    assert metrics.take() == {"env/height": 3.0}
    assert metrics.take() == {}, "a metric without a value leaves its cell empty"
    metrics.observe(step(height=7))
    assert metrics.take() == {"env/height": 7.0}, "one number for all environments"


def test_success_is_of_episodes_at_any_time_of_them():
    metrics = EnvMetrics(SPEC)
    metrics.observe(step(success=[True, False]))
    assert metrics.take() == {}, "no episode has ended"
    metrics.observe(step((True, True), success=[False, False]))
    metrics.observe(step((True, False), success=[False, False]))
    assert metrics.take() == {"env/success": pytest.approx(1 / 3)}


def test_what_cannot_be_averaged_is_an_error():
    for value in (torch.zeros(3), "high"):
        with pytest.raises(BadSimulation, match="'height' .* must be a number for each of its 2 environments"):
            EnvMetrics(SPEC).observe(step(height=value))
    for names in (("a,b",), ("a", "a"), ("",)):
        with pytest.raises(FlashSACError, match="Rename them"):
            EnvMetrics(dataclasses.replace(SPEC, metrics=names))


class Reports(toy_envs.PointEnv):
    metadata = {"render_modes": [], "metrics": ["reward/distance", "success", "never"]}

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, truncated, info | {"reward/distance": np.array(reward), "undeclared": 1.0}


def header(run) -> list[str]:
    with (run / "metrics.csv").open(newline="") as file:
        return next(csv.reader(file))


def tags(run) -> set[str]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return set(events.Tags()["scalars"])


@pytest.mark.slow
def test_a_gymnasium_environment_declares_them_in_its_metadata(tmp_path, capfd):
    run = tmp_path / "run"
    flashsac.train(Reports, run_dir=str(run), **SETTINGS | dict(quiet=False))
    assert header(run)[-3:] == ["env/reward/distance", "env/success", "env/never"]
    rows = read_metrics(run / "metrics.csv")
    assert all(-3 < row["env/reward/distance"] < 0 for row in rows)
    assert any("env/success" in row for row in rows)
    assert {"env/reward/distance", "env/success"} <= tags(run)
    assert capfd.readouterr().out.count("declares the metrics never, but no step has reported them") == 1


@pytest.mark.slow
def test_a_resumed_run_writes_the_same_numbers(tmp_path):
    alone, stopped = tmp_path / "alone", tmp_path / "stopped"
    flashsac.train(Reports, run_dir=str(alone), **SETTINGS)
    flashsac.train(Reports, run_dir=str(stopped), hooks=[StopAt(90)], **SETTINGS)
    flashsac.resume(stopped, Reports, quiet=True)
    own = lambda run: [{k: v for k, v in r.items() if k.startswith("env/")} for r in read_metrics(run / "metrics.csv")]
    assert own(stopped) == own(alone)
    assert header(stopped) == header(alone)


@pytest.mark.slow
def test_what_an_environment_no_longer_reports_is_kept(tmp_path):
    run = tmp_path / "run"
    flashsac.train(Reports, run_dir=str(run), hooks=[StopAt(100)], **SETTINGS)
    before = [row["env/reward/distance"] for row in read_metrics(run / "metrics.csv")]
    flashsac.resume(run, toy_envs.make_point, quiet=True)
    after = [row.get("env/reward/distance") for row in read_metrics(run / "metrics.csv")]
    assert after == before + [None] * (10 - len(before))


class Masses:
    """Many environments at once, in torch."""

    def __init__(self, num_envs: int = 4):
        self.spec = EnvSpec(num_envs, {"actor": 1}, 1, (-1.0,), (1.0,), 10, metrics=("height",))
        self.state, self.age = torch.zeros(num_envs, 1), 0

    def reset(self, seed):
        return first_obs({"actor": self._begin(torch.arange(len(self.state)))["actor"]})

    def _begin(self, envs):
        self.state[envs], self.age = 0.0, 0
        return {"actor": self.state[envs] + 0.5}

    def step(self, action):
        self.state, self.age = self.state + 1, self.age + 1
        late = torch.full((len(self.state),), self.age >= 10)
        info = {"height": self.state[:, 0]}
        return autoreset({"actor": self.state}, late.float(), torch.zeros_like(late), late, info, self._begin)

    def render(self):
        raise NotImplementedError

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        return False

    def close(self):
        pass


@pytest.mark.slow
def test_a_vectorised_environment_declares_them_in_its_spec(tmp_path):
    run = tmp_path / "run"
    flashsac.train(Masses, run_dir=str(run), **SETTINGS | dict(env=dict(num_envs=4), log_every=40))
    assert {row["env/height"] for row in read_metrics(run / "metrics.csv")} == {5.5}, (
        "of 1 to 10, though a reset overwrites the last one"
    )


class LoggedWalk(Walk):
    """As Isaac Lab's and mjlab's: the log is there after the first reset, one number for all environments."""

    extras = {"log": {"Episode_Reward/alive": torch.tensor(0.0), "note": "text"}}

    def step(self, actions):
        *rest, extras = super().step(actions)
        return (*rest, extras | {"log": {"Episode_Reward/alive": torch.tensor(0.25), "later": 3.0}})


@pytest.mark.slow
def test_what_rsl_rl_would_log_is_logged(tmp_path):
    run = tmp_path / "run"
    flashsac.train(LoggedWalk(), run_dir=str(run), **SETTINGS | dict(env={}))
    assert [name for name in header(run) if name.startswith("env/")] == ["env/Episode_Reward/alive"]
    assert {row["env/Episode_Reward/alive"] for row in read_metrics(run / "metrics.csv")} == {0.25}


@pytest.mark.slow
def test_workers_report_them():
    env = WorkerVecEnv(functools.partial(Reporting, "PointEnv"), 2)
    try:
        metrics = EnvMetrics(env.spec)
        env.reset(0)
        metrics.observe(env.step(torch.zeros(2, 2)))
        assert metrics.take() == {"env/height": 2.5}
    finally:
        env.close()


def test_wrappers_do_not_hide_them():
    wrapped = lambda: gymnasium.wrappers.TimeLimit(Reports(), 5)
    env = make_env(wrapped, EnvConfig(num_envs=1))
    assert env.spec.metrics == ("reward/distance", "success", "never")
