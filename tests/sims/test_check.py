"""What check_env asks of an environment, and how."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from flashsac.config.schema import EnvConfig
from flashsac.sims.base import Unsaved
from flashsac.sims.check import _check_saving, _rollout
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


@pytest.mark.slow
def test_the_table_of_simulators_says_no_where_no_episode_ended(monkeypatch, capsys):
    module = importlib.util.spec_from_file_location("test_sims", ROOT / "scripts" / "test_sims.py")
    script = importlib.util.module_from_spec(module)
    monkeypatch.setitem(sys.modules, "test_sims", script)  # where dataclasses look for it
    module.loader.exec_module(script)
    monkeypatch.setattr(script.Sim, "python", Path(sys.executable))
    sim = script.Sim("main", "auto", "tests.sims.test_check:Endless", tests="")
    assert script._check(sim)["check_env"] == "NO"
    assert "no episode ended within 50 steps" in capsys.readouterr().out
