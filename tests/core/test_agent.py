"""The agent as a whole: warm-up, schedule, determinism."""

from __future__ import annotations

import math

import pytest
import torch

from flashsac.config import AgentConfig
from flashsac.core.agent import Agent
from flashsac.core.optimizer import adam_rates
from flashsac.core.replay import Replay
from flashsac.types import CPU, Step

CONFIG = AgentConfig(batch_size=8, warmup=20, actor_width=8, critic_width=8)


def make_agent(make_spec, seed=0, total_updates=100, config=CONFIG):
    spec = make_spec(num_envs=2, obs=3, action=2)
    return Agent(spec, config, Replay(spec, 1000, discount=0.99), total_updates=total_updates, seed=seed)


def feed(agent, steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda: {"actor": torch.randn(2, 3, generator=generator)}
    obs, no, yes = draw(), torch.zeros(2, dtype=torch.bool), torch.ones(2, dtype=torch.bool)
    actions = []
    for _ in range(steps):
        action, following = agent.act(obs), draw()
        agent.observe(obs, action, Step(following, torch.randn(2, generator=generator), no, no, following, yes, {}))
        obs = following
        actions.append(action)
    return actions


def test_uniform_actions_until_warm(make_spec):
    agent = make_agent(make_spec)
    actions = torch.stack(feed(agent, 10))
    assert agent.warm
    assert actions.abs().max() <= 1
    assert actions.std() == pytest.approx(3**-0.5, abs=0.15)


def test_the_learning_rate_falls_along_a_cosine(make_spec):
    agent = make_agent(make_spec, total_updates=10)
    assert agent.learning_rate() == pytest.approx(3e-4)
    agent.updates = 5
    assert agent.learning_rate() == pytest.approx(2.25e-4)
    agent.updates = 10
    assert agent.learning_rate() == pytest.approx(1.5e-4)


def test_actor_every_second_update_starting_with_the_first(make_spec):
    agent = make_agent(make_spec)
    feed(agent, 10)
    updated = ["actor_loss" in agent.update() for _ in range(4)]
    assert updated == [True, False, True, False]


def test_same_seed_same_everything_other_seed_other_weights(make_spec):
    runs = []
    for seed in (0, 0, 1):
        agent = make_agent(make_spec, seed)
        feed(agent, 15)
        for _ in range(3):
            agent.update()
        runs.append([p.clone() for p in agent.learner.critic.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(runs[0], runs[1], strict=True))
    assert not torch.equal(runs[0][-1], runs[2][-1])


def test_the_global_random_state_is_left_alone(make_spec):
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    agent = make_agent(make_spec)
    feed(agent, 12)
    agent.update()
    assert torch.equal(torch.rand(1), expected)


def test_what_every_update_is_given(make_spec):
    """Rates of each optimizer by its own count of steps, fresh noise for actor and target, the batch and the scale of the moment."""
    agent = make_agent(make_spec, total_updates=10)
    feed(agent, 15)
    given = []
    note = lambda kind: lambda *args: given.append((kind, *args)) or {}
    agent._update_both, agent._update_critic = note("both"), note("critic")
    expected = torch.Generator().manual_seed(1)
    expected.set_state(agent._learning_rng.get_state())
    for update in range(5):
        agent.update()
        kind, batch, scale, chance, rates = given[-1]
        assert kind == ("both", "critic")[update % 2]
        again = agent.replay.sample(8, expected)
        noise = torch.randn(2, 8, 2, generator=expected)
        assert torch.equal(batch.reward, again.reward)
        assert torch.equal(chance.actor, noise[0])
        assert torch.equal(chance.target, noise[1])
        assert scale == agent.reward_scale.scale()
        rate = 1.5e-4 + 0.5 * 1.5e-4 * (1 + math.cos(math.pi * update / 10))
        assert torch.equal(rates.critic, adam_rates(rate, update + 1, CPU))
        assert torch.equal(rates.actor, adam_rates(rate, update // 2 + 1, CPU))


def test_rewards_are_divided_by_their_scale(make_spec):
    agent = make_agent(make_spec)
    feed(agent, 15)
    state = agent._learning_rng.get_state()
    scaled = agent.update()["reward"]
    agent._learning_rng.set_state(state)
    batch = agent.replay.sample(8, agent._learning_rng)
    assert agent.reward_scale.scale() != 1
    assert scaled == pytest.approx((batch.reward / agent.reward_scale.scale()).mean().item(), rel=1e-5)
