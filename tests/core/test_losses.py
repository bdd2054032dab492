"""Losses against brute force."""

from __future__ import annotations

import math

import pytest
import torch

from flashsac.core import losses
from flashsac.core.losses import CategoricalValue, ScalarValue


def project_by_hand(probs, values, atoms):
    """Bellemare et al., algorithm 1, one number at a time."""
    low, high, count = atoms[0].item(), atoms[-1].item(), len(atoms)
    spacing = (high - low) / (count - 1)
    out = torch.zeros_like(probs, dtype=torch.float64)
    for row in range(probs.shape[0]):
        for p, value in zip(probs[row].tolist(), values[row].tolist(), strict=True):
            b = (min(max(value, low), high) - low) / spacing
            lower, upper = math.floor(b), math.ceil(b)
            if lower == upper:
                out[row, lower] += p
            else:
                out[row, lower] += p * (upper - b)
                out[row, upper] += p * (b - lower)
    return out


def test_categorical_projection_matches_brute_force():
    value = CategoricalValue(101, 5.0)
    generator = torch.Generator().manual_seed(0)
    probs = torch.randn(64, 101, generator=generator).softmax(-1)
    values = 8 * torch.randn(64, 101, generator=generator)  # many beyond the support
    values[0] = value.atoms  # exactly on the atoms
    values[1], values[2] = 5.0, -5.0  # exactly on the edges
    result = value.project(probs, values)
    assert torch.allclose(result.double(), project_by_hand(probs, values, value.atoms), atol=2e-5)
    assert torch.allclose(result.sum(-1), torch.ones(64), atol=1e-5)
    assert torch.allclose(result[0], probs[0], atol=1e-4)
    assert result[1, -1].item() == pytest.approx(1.0, abs=1e-5)


def test_target_takes_the_whole_distribution_of_the_smaller_mean():
    value = CategoricalValue(101, 5.0)
    out = torch.full((2, 2, 101), -50.0)
    out[0, 0, 60] = out[1, 0, 70] = 50.0  # sample 0: member 0 is smaller
    out[0, 1, 80] = out[1, 1, 40] = 50.0  # sample 1: member 1 is smaller
    reward, discount, entropy_cost = torch.tensor([0.5, -0.2]), torch.tensor([0.9, 0.0]), torch.tensor([0.3, 0.3])
    target = value.target(out, reward, discount, entropy_cost)
    means = (target * value.atoms).sum(-1)
    assert means[0].item() == pytest.approx(0.5 + 0.9 * (value.atoms[60].item() - 0.3), abs=1e-4)
    assert means[1].item() == pytest.approx(-0.2, abs=1e-4), "terminated: the reward alone"


def test_cross_entropy_by_hand():
    value = CategoricalValue(3, 1.0)
    out = torch.tensor([[[0.1, 0.2, 0.3]], [[0.0, 1.0, 0.0]]])
    target_out = torch.tensor([[[0.0, 0.0, 60.0]], [[0.0, 0.0, 60.0]]])
    loss = value.loss(out, target_out, torch.tensor([0.0]), torch.tensor([0.5]), torch.tensor([0.0]))
    target = torch.tensor([0.0, 0.5, 0.5])  # the atom 1 moved to 0.5
    expected = -(target * out.log_softmax(-1)).sum(-1).mean()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-6)


def test_squashed_log_prob_matches_numerical_density():
    mean, log_std = torch.tensor([[0.3, -0.5]]), torch.tensor([[-1.0, 0.2]])
    noise = torch.tensor([[0.7, -1.1]])
    action, log_prob = losses.squash(mean, log_std, noise)
    base = torch.distributions.Normal(mean.double(), log_std.double().exp())
    squashed = torch.distributions.TransformedDistribution(base, torch.distributions.TanhTransform())
    assert log_prob.item() == pytest.approx(squashed.log_prob(action.double()).sum().item(), abs=1e-5)
    far, far_log_prob = losses.squash(torch.tensor([[30.0]]), torch.tensor([[0.0]]), torch.tensor([[0.0]]))
    assert torch.isfinite(far_log_prob).all()
    assert far.abs().item() <= 1.0


def test_entropy_target():
    assert losses.entropy_target(6, 0.15) == pytest.approx(0.5 * 6 * math.log(2 * math.pi * math.e * 0.0225))


def test_temperature_rises_when_entropy_is_low():
    log_temperature = torch.zeros((), requires_grad=True)
    losses.temperature_loss(log_temperature, torch.tensor([5.0]), target=-3.0).backward()
    assert log_temperature.grad is not None
    assert log_temperature.grad.item() == pytest.approx(-5.0 + 3.0)


def test_scalar_value_is_clipped_double_q():
    value = ScalarValue()
    out, target_out = torch.tensor([[[1.0]], [[2.0]]]), torch.tensor([[[3.0]], [[4.0]]])
    loss = value.loss(out, target_out, torch.tensor([1.0]), torch.tensor([0.5]), torch.tensor([1.0]))
    assert loss.item() == pytest.approx(((1 - 2) ** 2 + (2 - 2) ** 2) / 2)
