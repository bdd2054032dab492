"""The metrics of an update are exactly those that its parts declare."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from flashsac.config.schema import AgentConfig
from flashsac.core.agent import Agent
from flashsac.core.encoders.build import make_encoder
from flashsac.core.replay import Replay
from flashsac.core.update import Learner
from flashsac.types import EnvSpec, Pixels, Step

VECTORS = EnvSpec(2, {"actor": 4, "critic": 6}, 2, (-1.0,) * 2, (1.0,) * 2, None)
SPECS = {
    "state": VECTORS,
    "pixels": dataclasses.replace(VECTORS, obs={}, pixels=Pixels(3, 16, 16, 2)),
    "context": dataclasses.replace(VECTORS, history=3, velocity=(1, 4)),
}
OF_THE_ENCODER = {"state": set(), "pixels": set(), "context": {"velocity_loss", "next_obs_loss"}}
CONFIG = AgentConfig(batch_size=8, warmup=10, actor_width=8, critic_width=8, image_channels=4, image_features=5)


def trained_agent(spec: EnvSpec) -> Agent:
    agent = Agent(spec, CONFIG, Replay(spec, 100, discount=0.99), total_updates=10)
    obs = {group: torch.zeros((2, *shape), dtype=dtype) for group, (shape, dtype) in spec.groups.items()}
    no, yes = torch.zeros(2, dtype=torch.bool), torch.ones(2, dtype=torch.bool)
    for _ in range(5):
        agent.observe(obs, agent.act(obs), Step(obs, torch.randn(2), no, no, obs, yes, {}))
    return agent


@pytest.mark.parametrize("kind", SPECS)
def test_an_update_returns_what_is_declared(kind):
    agent = trained_agent(SPECS[kind])
    declared = Learner.METRICS.keys() | agent.learner.encoder.METRICS.keys()
    of_the_actor = {"actor_loss", "entropy", "temperature", "action_std"}
    assert agent.update().keys() == declared, "the first update includes the actor"
    assert agent.update().keys() == declared - of_the_actor


@pytest.mark.parametrize("kind", SPECS)
def test_every_encoder_declares_its_own(kind):
    assert make_encoder(SPECS[kind], CONFIG, torch.float32).METRICS.keys() == OF_THE_ENCODER[kind]


def test_no_name_is_declared_twice_and_each_has_a_meaning():
    parts = (Learner, Agent, Replay, *(type(make_encoder(spec, CONFIG, torch.float32)) for spec in SPECS.values()))
    names = [name for part in parts for name in part.METRICS]
    assert len(names) == len(set(names))
    assert {"reward_scale", "learning_rate", "invalid"} <= set(names)
    assert all(meaning and "\n" not in meaning for part in parts for meaning in part.METRICS.values())
