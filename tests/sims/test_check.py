"""What check_env asks of an environment, and how."""

from __future__ import annotations

import dataclasses

import torch

from flashsac.config import EnvConfig
from flashsac.sims.check import _check_saving, _rollout
from flashsac.sims.registry import make_env
from tests import toy_envs


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
