"""Histories by brute force, the estimator's losses by hand, and the mirror inside an update."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from flashsac.config.schema import AgentConfig
from flashsac.core.agent import Agent
from flashsac.core.encoders.context import ContextEncoder, RunningNorm
from flashsac.core.optimizer import adam_step_size
from flashsac.core.replay import Replay
from flashsac.core.transforms import RandomMirror, make_transform
from flashsac.core.update import Learner
from flashsac.errors import FlashSACError
from flashsac.training.compile import compiler_for
from flashsac.types import CPU, Batch, EnvSpec, Mirror, Step
from tests.helpers import noise_and_step_sizes

H, OBS, CRITIC, ACTIONS = 3, 4, 6, 2


def spec(num_envs=2, **changes):
    low, high = (-1.0,) * ACTIONS, (1.0,) * ACTIONS
    base = EnvSpec(num_envs, {"actor": OBS, "critic": CRITIC}, ACTIONS, low, high, None, history=H, velocity=(1, 4))
    return dataclasses.replace(base, **changes)


def batch(size=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draw = lambda width: torch.randn(size, width, generator=generator)
    obs, following = ({"actor": draw(OBS), "critic": draw(CRITIC), "history": draw(H * OBS)} for _ in range(2))
    return Batch(obs, draw(ACTIONS), torch.zeros(size), torch.ones(size), following)


def test_every_history_equals_the_one_the_environment_showed():
    """Random episode ends, invalid steps and a ring that wraps: what is rebuilt is what was seen."""
    generator = torch.Generator().manual_seed(1)
    replay, envs = Replay(spec(), 40, discount=0.9, n_step=2), 2
    past = obs = None
    shown: list[tuple] = []
    fresh = lambda: torch.randn(envs, OBS, generator=generator)
    repeated = lambda rows: rows[:, None].repeat(1, H, 1)
    obs = fresh()
    past = repeated(obs)
    for _ in range(70):
        terminated, truncated, broken = (torch.rand(3, envs, generator=generator) < 0.08).unbind()
        led_to, reset_to = fresh(), fresh()
        over = (terminated | truncated | broken)[:, None]
        following = torch.where(over, reset_to, led_to)
        after = torch.cat([past[:, 1:], obs[:, None]], 1)
        next_past = torch.where(over[:, :, None], repeated(following), after)
        wrap = lambda rows, history: {"actor": rows, "critic": torch.zeros(envs, CRITIC), "history": history.flatten(1)}
        step = Step(
            wrap(following, next_past), torch.zeros(envs), terminated, truncated, wrap(led_to, after), ~broken, {}
        )
        replay.add(wrap(obs, past), torch.zeros(envs, ACTIONS), step)
        shown.append((past, after, broken, terminated | truncated))
        obs, past = following, next_past
    assert replay.tail > 0
    checked = 0
    for start in range(replay.tail, replay.head - 1):
        for env in range(envs):
            if shown[start][2][env]:
                continue
            found = replay.gather(torch.tensor([start]), torch.tensor([env]))
            assert torch.equal(found.obs["history"][0], shown[start][0][env].flatten())
            alone = bool(shown[start][3][env]) or bool(shown[start + 1][2][env])
            last = start if alone else start + 1
            assert torch.equal(found.next_obs["history"][0], shown[last][1][env].flatten())
            checked += 1
    assert checked > 30


def test_what_is_stored_of_a_history_is_nothing():
    with_history, without = Replay(spec(), 1000, discount=0.9), Replay(spec(history=0), 1000, discount=0.9)
    assert set(with_history.obs) == set(without.obs) == {"actor", "critic"}
    assert with_history.slots == without.slots + H


def test_the_actor_sees_observation_velocity_and_latent():
    encoder = ContextEncoder(spec(), AgentConfig(context_latent=5))
    features = encoder(batch().obs)
    assert encoder.widths == (OBS + 3 + 5, CRITIC)
    assert features.actor.shape == (5, OBS + 3 + 5)
    assert torch.equal(features.actor[:, :OBS], batch().obs["actor"])
    assert torch.equal(features.critic, batch().obs["critic"])
    assert features.actor[:, OBS + 3 :].abs().max() < 1


def test_its_losses_by_hand():
    encoder, data = ContextEncoder(spec(), AgentConfig(context_latent=2)), batch()
    loss, metrics = encoder.auxiliary_loss(data)
    mean, var = 0.01 * data.obs["actor"].mean(0), 0.99 + 0.01 * data.obs["actor"].var(0)
    normal = lambda rows: (rows - mean) / (var + 1e-5).sqrt()
    frames = [normal(frame) for frame in data.obs["history"].split(OBS, 1)]
    out = encoder.estimator(torch.cat(frames, 1))
    guess = torch.cat([out[:, :3], out[:, 3:].tanh()], 1)
    velocity = ((guess[:, :3] - data.obs["critic"][:, 1:4]) ** 2).mean()
    following = ((encoder.decoder(guess) - normal(data.next_obs["actor"])) ** 2).mean()
    assert metrics["velocity_loss"].item() == pytest.approx(velocity.item(), rel=1e-5)
    assert metrics["next_obs_loss"].item() == pytest.approx(following.item(), rel=1e-5)
    assert loss.item() == pytest.approx((velocity + following).item(), rel=1e-5)


def test_running_statistics():
    norm, rows = RunningNorm(2), torch.tensor([[0.0, 10.0], [2.0, 30.0]])
    for _ in range(2000):
        norm.observe(rows)
    assert norm(torch.tensor([[1.0, 20.0], [1.0 + 2**0.5, 20.0]])) == pytest.approx(
        torch.tensor([[0.0, 0.0], [1.0, 0.0]]), abs=1e-3
    )


@pytest.mark.slow
def test_it_learns_to_tell_a_velocity_that_the_history_gives_away():
    """The velocity is the difference of the last two observations: an agent whose updates train the estimator finds that."""
    config = AgentConfig(
        batch_size=64, warmup=40, actor_width=8, critic_width=8, learning_rate=1e-3, learning_rate_end=1e-3
    )
    shape = spec(num_envs=8)
    agent = Agent(shape, config, Replay(shape, 4000, discount=0.9), total_updates=1000)
    generator = torch.Generator().manual_seed(0)
    no, yes = torch.zeros(8, dtype=torch.bool), torch.ones(8, dtype=torch.bool)
    frames = [torch.randn(8, OBS, generator=generator) for _ in range(H + 1)]

    def see():
        true = torch.zeros(8, CRITIC)
        true[:, 1:4] = frames[-2][:, :3] - frames[-3][:, :3]
        return {"actor": frames[-1], "critic": true, "history": torch.cat(frames[-H - 1 : -1], 1)}

    obs = see()
    for _ in range(300):
        action = agent.act(obs)
        frames.append(torch.randn(8, OBS, generator=generator))
        following = see()
        agent.observe(obs, action, Step(following, torch.zeros(8), no, no, following, yes, {}))
        obs = following
    losses = [agent.update()["velocity_loss"].item() for _ in range(400)]
    assert losses[0] > 1.0
    assert sum(losses[-20:]) / 20 < 0.3


MIRRORS = {
    "actor": Mirror((1, 0, 2, 3), (1.0, 1.0, -1.0, 1.0)),
    "critic": Mirror((0, 1, 2, 3, 5, 4), (1.0, 1.0, -1.0, 1.0, 1.0, 1.0)),
    "history": Mirror((1, 0, 2, 3, 5, 4, 6, 7, 9, 8, 10, 11), (1.0, 1.0, -1.0, 1.0) * 3),
    "action": Mirror((1, 0), (-1.0, -1.0)),
}


def test_the_mirror_turns_whole_transitions():
    data = batch()
    turn = torch.tensor([True, False, True, False, False])[:, None]
    out = RandomMirror(MIRRORS, CPU)(data, turn)
    frame = lambda x: [x[1], x[0], -x[2], x[3]]
    by_hand = {
        "actor": frame,
        "critic": lambda x: [x[0], x[1], -x[2], x[3], x[5], x[4]],
        "history": lambda x: [*frame(x[:4]), *frame(x[4:8]), *frame(x[8:])],
    }
    for shown, obs in ((out.obs, data.obs), (out.next_obs, data.next_obs)):
        assert shown.keys() == by_hand.keys()
        for group, image in by_hand.items():
            for row, x in enumerate(obs[group]):
                assert torch.equal(shown[group][row], torch.stack(image(x)) if turn[row] else x), (group, row)
    for row, action in enumerate(data.action):
        assert torch.equal(out.action[row], -action.flip(0) if turn[row] else action)
    assert torch.equal(out.reward, data.reward)
    draws = RandomMirror(MIRRORS, CPU).draw(1000, torch.Generator().manual_seed(0))
    assert 0.4 < draws.float().mean() < 0.6


def test_symmetry_is_refused_where_nobody_knows_it():
    with pytest.raises(FlashSACError, match=r"does not say so for action, critic, history"):
        make_transform(spec(mirrors={"actor": MIRRORS["actor"]}), AgentConfig(symmetry=True), CPU)
    assert isinstance(make_transform(spec(mirrors=MIRRORS), AgentConfig(symmetry=True), CPU), RandomMirror)


@pytest.mark.slow
def test_compiled_it_is_the_same():
    config = AgentConfig(batch_size=5, actor_width=8, critic_width=8, blocks=1, symmetry=True)
    learners = []
    for _ in range(2):
        torch.manual_seed(0)
        learners.append(Learner(spec(mirrors=MIRRORS), config, CPU))
    plain, compiled = learners
    turn = torch.tensor([True, False, True, False, False])[:, None]
    step_sizes = adam_step_size(3e-4, 1), adam_step_size(1e-4, 1)
    arguments = (
        batch(),
        torch.tensor(2.0),
        *noise_and_step_sizes(torch.randn(2, 5, ACTIONS), *step_sizes, transform=turn),
    )
    expected = plain.update_critic(*arguments)
    metrics = compiler_for(CPU)(compiled.update_critic)(*arguments)
    assert {"velocity_loss", "next_obs_loss", "critic_loss"} <= set(metrics)
    for name, value in expected.items():
        assert metrics[name].item() == pytest.approx(value.item(), abs=1e-5), name
    for part in ("encoder", "critic", "target"):
        ours, theirs = getattr(plain, part).state_dict(), getattr(compiled, part).state_dict()
        assert all(torch.allclose(ours[name], theirs[name], atol=1e-5) for name in ours), part
