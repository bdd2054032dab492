"""Layers against values computed by hand, and the table of BatchNorm modes row by row."""

from __future__ import annotations

import copy
import math

import pytest
import torch

from flashsac.config.schema import AgentConfig
from flashsac.core import networks
from flashsac.core.networks import Actor, Backbone, BatchNorm, Block, Critic, Linear, RMSNorm, project_weights
from flashsac.core.optimizer import adam_step_size
from flashsac.core.update import Learner
from flashsac.types import Batch
from tests.helpers import noise_and_step_sizes


def test_linear_is_orthogonal_with_unit_rows_after_projection():
    layer = Linear(2, 5, 8)
    project_weights(layer)
    assert torch.allclose(layer.weight.norm(dim=-1), torch.ones(2, 8), atol=1e-6)
    assert not torch.equal(layer.weight[0], layer.weight[1]), "members must start differently"
    square = Linear(1, 6, 6)
    assert torch.allclose(square.weight[0] @ square.weight[0].T, torch.eye(6), atol=1e-5)


def test_linear_gradients_by_hand_and_contiguous():
    layer = Linear(2, 3, 4)
    x = torch.randn(2, 5, 3, requires_grad=True)
    weight = layer.weight.detach().clone().requires_grad_()
    factor = torch.randn(2, 5, 4)
    ours = torch.autograd.grad((layer(x, True) * factor).sum(), (x, layer.weight))
    theirs = torch.autograd.grad((torch.einsum("mbi,moi->mbo", x, weight) * factor).sum(), (x, weight))
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    assert ours[1].is_contiguous(), "a transposed gradient makes the optimizer slow"


def test_float16_keeps_gradients_that_it_cannot_hold():
    full, half = Linear(1, 8, 8), Linear(1, 8, 8, dtype=torch.float16)
    half.load_state_dict(full.state_dict())
    x, tiny = torch.randn(1, 16, 8), 1e-9 * torch.randn(1, 16, 8)  # float16 rounds these to zero
    expected, got = (torch.autograd.grad((layer(x, True) * tiny).sum(), layer.weight)[0] for layer in (full, half))
    assert torch.allclose(got, expected, rtol=0.02, atol=0.01 * expected.abs().max().item())
    assert half(x, False).dtype == torch.float32
    # Four thousand rows that all pull the same way, and an input beyond float16's range, must not overflow.
    rows = torch.full((1, 4096, 8), 20.0)
    (gradient,) = torch.autograd.grad(half(rows, True).sum(), half.weight)
    assert torch.allclose(gradient, torch.full_like(gradient, 4096 * 20.0), rtol=1e-3)
    assert torch.isfinite(half(torch.full((1, 1, 8), 1e6), False)).all()


def test_batch_norm_by_hand():
    norm = BatchNorm(1, 1)
    x = torch.tensor([[[1.0], [3.0], [5.0]]])
    y = norm(x, True)
    biased = 8 / 3
    assert torch.allclose(y.ravel(), torch.tensor([-2.0, 0.0, 2.0]) / math.sqrt(biased + 1e-5), atol=1e-6)
    assert norm.running_mean.item() == pytest.approx(0.01 * 3.0)
    assert norm.running_var.item() == pytest.approx(0.99 * 1.0 + 0.01 * 4.0)  # unbiased: 8 / 2
    before = norm.running_mean.clone()
    z = norm(x, False)
    assert torch.equal(norm.running_mean, before), "eval must not touch the statistics"
    expected = (x.ravel() - norm.running_mean.item()) / math.sqrt(norm.running_var.item() + 1e-5)
    assert torch.allclose(z.ravel(), expected)


def test_batch_norm_matches_torch_per_member():
    norm, reference = BatchNorm(2, 4), [torch.nn.BatchNorm1d(4, momentum=0.01) for _ in range(2)]
    x = torch.randn(2, 7, 4)
    y = norm(x, True)
    for member, layer in enumerate(reference):
        assert torch.allclose(y[member], layer(x[member]), atol=1e-5)
        assert torch.allclose(norm.running_mean[member, 0], layer.running_mean, atol=1e-6)
        assert torch.allclose(norm.running_var[member, 0], layer.running_var, atol=1e-6)


def test_projection_norms():
    width = 6
    norm, rms = BatchNorm(2, width), RMSNorm(2, width)
    with torch.no_grad():
        for parameter in (norm.scale, norm.bias, rms.scale):
            parameter.copy_(torch.randn_like(parameter) * 3)
    scale, bias = norm.scale.clone(), norm.bias.clone()
    project_weights(norm)
    project_weights(rms)
    together = norm.scale.square().sum(-1) + norm.bias.square().sum(-1)
    assert torch.allclose(together, torch.full((2, 1), float(width)), atol=1e-4)
    factor = math.sqrt(width) / torch.sqrt((scale[0] ** 2).sum() + (bias[0] ** 2).sum() + 1e-8)
    assert torch.allclose(norm.scale[0], scale[0] * factor, atol=1e-6)
    assert torch.allclose(rms.scale.norm(dim=-1), torch.full((2, 1), math.sqrt(width)), atol=1e-5)


def test_rms_norm_by_hand():
    out = RMSNorm(1, 2)(torch.tensor([[[3.0, 4.0]]]))
    assert torch.allclose(out, torch.tensor([[[3.0, 4.0]]]) / math.sqrt(12.5 + 1e-6))


def test_block_second_relu_comes_before_the_sum():
    block = Block(1, 4, residual=True, batch_norm=True, dtype=torch.float32)
    x = torch.randn(1, 16, 4)
    assert (block(x, True) - x >= -1e-6).all(), "what a block adds is never negative"
    bare = Block(1, 4, residual=False, batch_norm=True, dtype=torch.float32)
    assert (bare(x, True) >= 0).all()


def test_parameter_count_of_the_paper():
    """G1 flat: about 0.29M for the actor and 2 x 1.12M for the critics."""
    actor = Actor(103, 29, 128)
    critic = Critic(2, 216 + 29, 256, 101)
    count = lambda net: sum(p.numel() for p in net.parameters())
    assert 0.27e6 < count(actor) < 0.31e6
    assert 2.1e6 < count(critic) < 2.3e6


def test_log_std_is_squashed():
    actor = Actor(3, 2, 8)
    with torch.no_grad():
        actor.log_std.bias.fill_(100.0)
    assert torch.allclose(actor(torch.randn(4, 3), False)[1], torch.full((4, 2), 2.0))
    with torch.no_grad():
        actor.log_std.bias.fill_(-100.0)
    assert torch.allclose(actor(torch.randn(4, 3), False)[1], torch.full((4, 2), -10.0))


def test_rows_restrict_the_output_but_not_the_statistics():
    net = Backbone(1, 3, 8)
    x = torch.randn(10, 3)
    whole = net(x, True)
    assert torch.allclose(net(x, True, slice(0, 5)), whole[:, :5], atol=1e-6)


@pytest.fixture
def watched(make_spec, monkeypatch):
    """A learner whose every network pass is written down: (network, rows fed, train, rows used, gradients on)."""
    spec = make_spec(obs=3, action=2, critic=4)
    learner = Learner(spec, AgentConfig(actor_width=8, critic_width=8), torch.device("cpu"))
    names = {id(learner.actor): "actor", id(learner.critic): "critic", id(learner.target): "target"}
    passes: list[tuple] = []

    def watch(cls):
        original = cls.forward

        def forward(self, x, train, rows=networks.ALL_ROWS):
            passes.append((names[id(self)], x.detach().clone(), train, rows, torch.is_grad_enabled()))
            return original(self, x, train, rows)

        monkeypatch.setattr(cls, "forward", forward)

    watch(Actor)
    watch(Critic)
    size = 5
    obs = {"actor": torch.randn(size, 3), "critic": torch.randn(size, 4)}
    next_obs = {"actor": torch.randn(size, 3), "critic": torch.randn(size, 4)}
    batch = Batch(obs, torch.rand(size, 2) * 2 - 1, torch.randn(size), torch.full((size,), 0.99), next_obs)
    return learner, batch, passes


def test_batch_norm_modes_row_by_row(watched):
    learner, batch, passes = watched
    noise, step_size = torch.randn(2, 5, 2), adam_step_size(3e-4, 1)
    stats = lambda net: [b.clone() for b in net.buffers()]
    critic_before, critic_stats = [p.clone() for p in learner.critic.parameters()], stats(learner.critic)
    learner.update_actor(batch, *noise_and_step_sizes(noise, step_size))

    # Row 1: the actor in its own loss: train, [obs; next_obs], first half used.
    name, rows, train, used, grad = passes[0]
    assert (name, train, used, grad) == ("actor", True, slice(0, 5), True)
    assert torch.equal(rows, torch.cat([batch.obs["actor"], batch.next_obs["actor"]]))
    # Row 2: the critic inside the actor loss: eval, B rows, weights and statistics untouched.
    name, rows, train, _, _ = passes[1]
    assert (name, train, len(rows)) == ("critic", False, 5)
    assert torch.equal(rows[:, :4], batch.obs["critic"])
    assert all(torch.equal(a, b) for a, b in zip(critic_before, learner.critic.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in zip(critic_stats, stats(learner.critic), strict=True))
    assert len(passes) == 2

    passes.clear()
    actor_stats, target_stats = stats(learner.actor), stats(learner.target)
    learner.update_critic(batch, torch.tensor(1.0), *noise_and_step_sizes(noise, step_size))
    # Row 3: the actor for the target's action: eval, no gradient, next_obs.
    name, rows, train, _, grad = passes[0]
    assert (name, train, grad) == ("actor", False, False)
    assert torch.equal(rows, batch.next_obs["actor"])
    assert all(torch.equal(a, b) for a, b in zip(actor_stats, stats(learner.actor), strict=True))
    # Row 4: the target critic: train, no gradient, [(s, a); (s', a')], second half used; statistics of its own move.
    name, rows, train, used, grad = passes[1]
    assert (name, train, used, grad) == ("target", True, slice(5, 10), False)
    assert torch.equal(rows[:5], torch.cat([batch.obs["critic"], batch.action], -1))
    assert torch.equal(rows[5:, :4], batch.next_obs["critic"])
    assert any(not torch.equal(a, b) for a, b in zip(target_stats, stats(learner.target), strict=True))
    # Row 5: the critic: train, the same rows, first half used.
    name, critic_rows, train, used, grad = passes[2]
    assert (name, train, used, grad) == ("critic", True, slice(0, 5), True)
    assert torch.equal(critic_rows, rows)
    assert len(passes) == 3


def test_target_average_covers_parameters_only(watched):
    learner, batch, _ = watched
    given = noise_and_step_sizes(torch.randn(2, 5, 2), adam_step_size(3e-4, 1))
    start = copy.deepcopy(learner.state_dict())
    learner.update_critic(batch, torch.tensor(1.0), *given)
    after = copy.deepcopy(learner.target.state_dict())
    for name, online in learner.critic.named_parameters():
        old = start["target"][name]
        assert torch.allclose(after[name], old + 0.01 * (online - old), atol=1e-7), name
    # Statistics are the target's own: whatever the critic's are, the same update leaves the same target.
    learner.load_state_dict(start)
    for statistic in learner.critic.buffers():
        statistic.fill_(100.0)
    learner.update_critic(batch, torch.tensor(1.0), *given)
    assert all(torch.equal(value, after[name]) for name, value in learner.target.state_dict().items())


def test_acting_uses_running_statistics(watched):
    """What the others see makes no difference to an environment's action, and leaves no trace."""
    learner, _, _ = watched
    before = [statistic.clone() for statistic in learner.actor.buffers()]
    obs, noise = torch.randn(4, 3), torch.randn(4, 2)
    together = learner.explore({"actor": obs}, noise)
    assert torch.allclose(together[:2], learner.explore({"actor": obs[:2]}, noise[:2]), atol=1e-6)
    assert all(torch.equal(a, b) for a, b in zip(before, learner.actor.buffers(), strict=True))
