"""The losses: pure functions of tensors, and the two kinds of value head."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


def squash(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """The action tanh(mean + std noise) and its log-probability, with the exact tanh correction."""
    u = mean + log_std.exp() * noise
    gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    correction = 2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))
    return torch.tanh(u), (gaussian - correction).sum(-1)


def entropy_target(action_dim: int, target_std: float) -> float:
    """Entropy of a Gaussian with that standard deviation in every action (paper: Unified Entropy Target)."""
    return 0.5 * action_dim * math.log(2 * math.pi * math.e * target_std**2)


def actor_loss(log_prob: Tensor, q: Tensor, temperature: Tensor) -> Tensor:
    """Paper, eq. 1. q: (members, batch)."""
    return (temperature * log_prob - q.min(0).values).mean()


def temperature_loss(log_temperature: Tensor, log_prob: Tensor, target: float) -> Tensor:
    """Raises the temperature while the policy's entropy is below its target."""
    return log_temperature.exp() * (-log_prob.detach().mean() - target)


class ValueHead(Protocol):
    """How critic outputs (members, batch, outputs) are read and trained."""

    outputs: int

    def mean(self, out: Tensor) -> Tensor: ...

    def loss(
        self, out: Tensor, target_out: Tensor, reward: Tensor, discount: Tensor, entropy_cost: Tensor
    ) -> Tensor: ...


class CategoricalValue:
    """A distribution over returns on fixed atoms, trained by cross-entropy (paper: Distributional Critic)."""

    def __init__(self, atoms: int, value_max: float, device: torch.device | str = "cpu"):
        self.outputs = atoms
        self.limit = value_max
        self.spacing = 2 * value_max / (atoms - 1)
        self.atoms = torch.linspace(-value_max, value_max, atoms, device=device)

    def mean(self, out: Tensor) -> Tensor:
        return (out.softmax(-1) * self.atoms).sum(-1)

    def project(self, probs: Tensor, values: Tensor) -> Tensor:
        """Spread the mass of each value linearly over its two neighbouring atoms. probs, values: (batch, atoms)."""
        position = (values.clamp(-self.limit, self.limit) + self.limit) / self.spacing
        lower = position.floor().clamp(0, self.outputs - 2)
        upper_share = position - lower
        index = lower.long()
        projected = torch.zeros_like(probs).scatter_add(-1, index, probs * (1.0 - upper_share))
        return projected.scatter_add(-1, index + 1, probs * upper_share)

    def target(self, target_out: Tensor, reward: Tensor, discount: Tensor, entropy_cost: Tensor) -> Tensor:
        """Clipped double Q on distributions: the whole distribution of the member whose mean is smaller, moved and projected."""
        probs = target_out.softmax(-1)
        q = (probs * self.atoms).sum(-1)
        smallest = q.argmin(0)
        chosen = probs.gather(0, smallest[None, :, None].expand(1, -1, self.outputs))[0]
        values = reward[:, None] + discount[:, None] * (self.atoms - entropy_cost[:, None])
        return self.project(chosen, values)

    def loss(self, out: Tensor, target_out: Tensor, reward: Tensor, discount: Tensor, entropy_cost: Tensor) -> Tensor:
        target = self.target(target_out, reward, discount, entropy_cost).detach()
        return -(target * out.log_softmax(-1)).sum(-1).mean()


class ScalarValue:
    """Ablation: one number, squared error."""

    outputs = 1

    def mean(self, out: Tensor) -> Tensor:
        return out.squeeze(-1)

    def loss(self, out: Tensor, target_out: Tensor, reward: Tensor, discount: Tensor, entropy_cost: Tensor) -> Tensor:
        target = reward + discount * (self.mean(target_out).min(0).values - entropy_cost)
        return (self.mean(out) - target.detach()).square().mean()
