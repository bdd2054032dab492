"""The losses: pure functions of tensors, and the two kinds of value head. Equation numbers are the paper's."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


def squash(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """The action tanh(mean + std noise), (batch, action_dim), and its log-probability, (batch,).

    All inputs are (batch, action_dim). The log-probability includes the exact correction for tanh.
    """
    u = mean + log_std.exp() * noise
    gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    correction = 2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))  # log(1 - tanh(u)^2)
    return torch.tanh(u), (gaussian - correction).sum(-1)


def entropy_target(action_dim: int, target_std: float) -> float:
    """Eq. 7: the entropy of a Gaussian with that standard deviation in every action (paper: Unified Entropy Target)."""
    return 0.5 * action_dim * math.log(2 * math.pi * math.e * target_std**2)


def actor_loss(log_prob: Tensor, q: Tensor, temperature: Tensor) -> Tensor:
    """Eq. 2. log_prob: (batch,), q: (members, batch)."""
    return (temperature * log_prob - q.min(0).values).mean()


def temperature_loss(log_temperature: Tensor, log_prob: Tensor, target: float) -> Tensor:
    """SAC's temperature loss: the temperature rises while the entropy is below its target. log_prob: (batch,)."""
    return log_temperature.exp() * (-log_prob.detach().mean() - target)


class ValueHead(Protocol):
    """How critic outputs are read and trained."""

    outputs: int
    """Outputs of each critic."""

    def mean(self, out: Tensor) -> Tensor:
        """Q-values, (members, batch), of critic outputs, (members, batch, outputs)."""
        ...

    def loss(self, out: Tensor, target_out: Tensor, reward: Tensor, discount: Tensor, entropy_cost: Tensor) -> Tensor:
        """The critic loss, a scalar.

        out, target_out: (members, batch, outputs), of critic and target critic; reward, discount: (batch,).
        entropy_cost: temperature x log-probability of the next action, (batch,).
        """
        ...


class CategoricalValue:
    """A distribution over returns on fixed atoms, trained by cross-entropy (paper: Distributional Critic; C51)."""

    def __init__(self, atoms: int, value_max: float, device: torch.device | str = "cpu"):
        self.outputs = atoms
        self.limit = value_max
        self.spacing = 2 * value_max / (atoms - 1)
        self.atoms = torch.linspace(-value_max, value_max, atoms, device=device)  # (atoms,)

    def mean(self, out: Tensor) -> Tensor:
        return (out.softmax(-1) * self.atoms).sum(-1)

    def project(self, probs: Tensor, values: Tensor) -> Tensor:
        """Split the mass of each value between its two neighbouring atoms. All tensors are (batch, atoms)."""
        position = (values.clamp(-self.limit, self.limit) + self.limit) / self.spacing  # in [0, atoms - 1]
        lower = position.floor().clamp(0, self.outputs - 2)
        upper_share = position - lower
        index = lower.long()
        projected = torch.zeros_like(probs).scatter_add(-1, index, probs * (1.0 - upper_share))
        return projected.scatter_add(-1, index + 1, probs * upper_share)

    def target(self, target_out: Tensor, reward: Tensor, discount: Tensor, entropy_cost: Tensor) -> Tensor:
        """Eq. 5 on distributions, (batch, atoms). Clipped double Q picks the distribution with the smallest mean."""
        probs = target_out.softmax(-1)  # (members, batch, atoms)
        q = (probs * self.atoms).sum(-1)  # (members, batch)
        smallest = q.argmin(0)  # (batch,)
        chosen = probs.gather(0, smallest[None, :, None].expand(1, -1, self.outputs))[0]  # (batch, atoms)
        values = reward[:, None] + discount[:, None] * (self.atoms - entropy_cost[:, None])  # (batch, atoms)
        return self.project(chosen, values)

    def loss(self, out: Tensor, target_out: Tensor, reward: Tensor, discount: Tensor, entropy_cost: Tensor) -> Tensor:
        target = self.target(target_out, reward, discount, entropy_cost).detach()
        return -(target * out.log_softmax(-1)).sum(-1).mean()


class ScalarValue:
    """Ablation: one Q-value, trained by the squared error of eq. 4."""

    outputs = 1

    def mean(self, out: Tensor) -> Tensor:
        return out.squeeze(-1)

    def loss(self, out: Tensor, target_out: Tensor, reward: Tensor, discount: Tensor, entropy_cost: Tensor) -> Tensor:
        target = reward + discount * (self.mean(target_out).min(0).values - entropy_cost)  # eq. 5, (batch,)
        return (self.mean(out) - target.detach()).square().mean()
