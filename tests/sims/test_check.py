"""What check_env asks of an environment, and how."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import warnings
from pathlib import Path

import pytest
import torch

from flashsac.config.schema import EnvConfig
from flashsac.sims.base import Unsaved
from flashsac.sims.check import _check_saving, _rollout, check_env
from flashsac.sims.make import make_env
from flashsac.types import EnvSpec, Step
from tests import toy_envs
from tests.helpers import ROOT


class Elsewhere:
    """Takes actions on a device of its own, as a simulator on a GPU does; what it returns can be looked at."""

    def __init__(self):
        self.env = make_env(toy_envs.make_point, EnvConfig(num_envs=2))
        self.spec = dataclasses.replace(self.env.spec, device=torch.device("meta"))
        self.reset, self.state_dict = self.env.reset, self.env.state_dict
        self.load_state_dict = self.env.load_state_dict
        self.devices = set()

    def step(self, action):
        self.devices.add(action.device.type)
        return self.env.step(torch.zeros(2, 2))


def test_actions_are_handed_over_on_the_environments_device():
    env = Elsewhere()
    _rollout(env, steps=2, seed=0)
    _check_saving(env)
    assert env.devices == {"meta"}


class Endless(Unsaved):
    """Counts its steps, and takes no time limit."""

    def __init__(self, num_envs: int):
        self.spec = EnvSpec(num_envs, {"actor": 1}, 1, (-1.0,), (1.0,), None)

    def reset(self, seed):
        self.obs = torch.full((self.spec.num_envs, 1), float(seed))
        return {"actor": self.obs}

    def step(self, action):
        self.obs = self.obs + 1
        no = torch.zeros(self.spec.num_envs, dtype=torch.bool)
        return Step({"actor": self.obs}, self.obs[:, 0], no, no.clone(), {"actor": self.obs}, ~no, {})

    def close(self):
        pass


class Limited(Endless):
    """Its episodes end after `limit` steps, with the final observation lost where `faulty`."""

    def __init__(self, num_envs: int, limit: int, *, ends: bool = True, faulty: bool = False, named: bool = True):
        super().__init__(num_envs)
        self.spec = dataclasses.replace(self.spec, max_episode_steps=limit if named else None)
        self.limit, self.ends, self.faulty, self.count, self.total = limit, ends, faulty, 0, 0

    def reset(self, seed):
        self.count = 0
        return super().reset(seed)

    def step(self, action):
        step = super().step(action)
        self.count, self.total = self.count + 1, self.total + 1
        if not self.ends or self.count < self.limit:
            return step
        self.count, self.obs = 0, torch.zeros_like(self.obs)
        first = {"actor": self.obs}
        return step._replace(
            obs=first, truncated=step.valid.clone(), final_obs=first if self.faulty else step.final_obs
        )


def test_final_observations_are_checked_whatever_the_time_limit():
    """Also where the environment ends episodes without naming its limit."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(Limited(2, limit=100))
        check_env(Limited(2, limit=1000))
        check_env(Limited(2, limit=1000, named=False))
    for named in (True, False):
        with pytest.raises(AssertionError, match="the true last one is lost"):
            check_env(Limited(2, limit=100, faulty=True, named=named))


@pytest.mark.parametrize(("limit", "steps"), [(20, 50), (300, 300)])
def test_without_a_known_limit_the_check_stops_soon_after_an_episode_ended(limit, steps):
    env = Limited(2, limit, named=False)
    check_env(env)
    assert env.total == 2 * steps, "the same steps twice"


def test_a_time_limit_that_is_too_long_to_check_is_named():
    with pytest.warns(UserWarning, match=r"within 1200 steps.* The time limit is 5000 steps.*steps=5005"):
        check_env(Limited(2, limit=5000))
    with pytest.warns(UserWarning, match=r"within \d+ steps.* take fewer environments"):
        check_env(Limited(500_000, limit=100))
    with pytest.warns(UserWarning, match="within 1200 steps.* names no time limit: set max_episode_steps"):
        check_env(Endless(2))


def test_a_time_limit_that_is_not_kept_is_named():
    with pytest.warns(UserWarning, match="The time limit is 60 steps, but no episode was truncated"):
        check_env(Limited(2, limit=60, ends=False))


@pytest.mark.slow
def test_the_table_of_simulators_says_no_where_no_episode_ended(monkeypatch, capsys):
    module = importlib.util.spec_from_file_location("test_sims", ROOT / "scripts" / "test_sims.py")
    script = importlib.util.module_from_spec(module)
    monkeypatch.setitem(sys.modules, "test_sims", script)  # where dataclasses look for it
    module.loader.exec_module(script)
    monkeypatch.setattr(script.Sim, "python", Path(sys.executable))
    sim = script.Sim("main", "auto", "tests.sims.test_check:Endless", tests="")
    assert script._check(sim)["check_env"] == "NO"
    assert "no episode ended within 1200 steps" in capsys.readouterr().out
