"""The agent as a whole: warm-up, schedule, determinism."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import math

import pytest
import torch

from flashsac.config.schema import AgentConfig
from flashsac.core.agent import Agent
from flashsac.core.exploration import RepeatedNoise
from flashsac.core.optimizer import adam_step_size
from flashsac.core.replay import Replay
from flashsac.types import Step
from tests.helpers import noise_and_step_sizes

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
    agent, draw = make_agent(make_spec, seed=4), torch.Generator().manual_seed(4)
    for _ in range(10):  # of two environments: the twenty transitions of the warm-up
        assert not agent.ready_to_learn
        assert torch.equal(feed(agent, 1)[0], 2 * torch.rand(2, 2, generator=draw) - 1)
    assert agent.ready_to_learn


def test_noise_is_repeated_once_warm(make_spec):
    agent = make_agent(make_spec)
    feed(agent, 10)
    draw, obs = torch.Generator(), {"actor": torch.randn(2, 3)}
    draw.set_state(agent.acting_rng.get_state())
    noise = RepeatedNoise((2, 2), 16, 2.0, draw)
    actions = [agent.act(obs) for _ in range(60)]
    with torch.no_grad():
        assert all(torch.equal(action, agent.learner.explore(obs, noise.next())) for action in actions)
    changes = sum(not torch.equal(*pair) for pair in itertools.pairwise(actions))
    assert 10 < changes < 50, "two steps with the same noise, on average"


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


def test_an_update_is_the_actors_step_and_then_the_critics(make_spec):
    """By hand, on a copy of the learner: batch, noise and scale of the moment, step sizes by each count."""
    agent = make_agent(make_spec, total_updates=10)
    feed(agent, 15)
    learner = copy.deepcopy(agent.learner)
    draw = torch.Generator()
    draw.set_state(agent.learning_rng.get_state())
    for update in range(5):
        feed(agent, 1, seed=update)
        metrics = agent.update()
        batch = agent.replay.sample(8, draw)
        noise = torch.randn(2, 8, 2, generator=draw)
        learning_rate = 1.5e-4 + 0.5 * 1.5e-4 * (1 + math.cos(math.pi * update / 10))
        given = noise_and_step_sizes(
            noise, adam_step_size(learning_rate, update // 2 + 1), adam_step_size(learning_rate, update + 1)
        )
        expected = {} if update % 2 else learner.update_actor(batch, *given)
        expected |= learner.update_critic(batch, agent.reward_scale.scale(), *given)
        assert metrics == expected
    for part in ("actor", "critic", "target"):
        ours, theirs = getattr(learner, part).state_dict(), getattr(agent.learner, part).state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours), part
    assert torch.equal(learner.log_temperature, agent.learner.log_temperature)


def test_rewards_are_divided_by_their_scale(make_spec):
    agent = make_agent(make_spec)
    feed(agent, 15)
    state = agent.learning_rng.get_state()
    scaled = agent.update()["reward"]
    agent.learning_rng.set_state(state)
    batch = agent.replay.sample(8, agent.learning_rng)
    assert agent.reward_scale.scale() != 1
    assert scaled == pytest.approx((batch.reward / agent.reward_scale.scale()).mean().item(), rel=1e-5)


def test_without_reward_scaling_rewards_stay_as_they_are(make_spec):
    agent = make_agent(make_spec, config=dataclasses.replace(CONFIG, reward_scaling=False))
    feed(agent, 15)
    state = agent.learning_rng.get_state()
    reward = agent.update()["reward"]
    agent.learning_rng.set_state(state)
    assert agent.reward_scale.scale() == 1
    assert reward == agent.replay.sample(8, agent.learning_rng).reward.mean()


def test_returns_begin_anew_with_every_episode(make_spec):
    """After a death, a time limit, and a simulator that was reset behind our back."""
    agent = make_agent(make_spec)
    obs, valid = {"actor": torch.zeros(2, 3)}, torch.ones(2, dtype=torch.bool)

    def returns(terminated, truncated):
        ends = torch.tensor(terminated), torch.tensor(truncated)
        agent.observe(obs, torch.zeros(2, 2), Step(obs, torch.tensor([1.0, 2.0]), *ends, obs, valid, {}))
        return agent.reward_scale.returns.tolist()

    assert returns([False, False], [False, False]) == [1, 2]
    assert returns([True, False], [False, False]) == pytest.approx([0, 2 + 0.99 * 2])
    assert returns([False, False], [False, True]) == [1, 0]
    assert returns([False, False], [False, False]) == pytest.approx([1 + 0.99, 2])
    agent.restart_episodes(obs)
    assert returns([False, False], [False, False]) == [1, 2]
