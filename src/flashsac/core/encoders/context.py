"""The context estimator (CENet of DreamWaQ): it estimates for the actor what one observation does not show.

From the last observations it estimates the base's velocity, which no sensor on the robot measures, and a latent vector.
A decoder predicts the next observation from both. Simulation knows both targets, so the estimator is supervised.
"""

from __future__ import annotations

import itertools
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flashsac.config.schema import AgentConfig
from flashsac.core.encoders.state import Features, StateEncoder
from flashsac.core.sync import ALONE, Sync, whole_moments
from flashsac.types import Batch, EnvSpec, Obs

WIDTHS = (128, 64)
"""Hidden widths of the estimator. The decoder has the same in reverse order."""
VELOCITY = 3
"""Dimensions of the base's linear velocity."""


class ContextEncoder(StateEncoder):
    """The actor gets its observation, the estimated velocity and the latent; the critic gets its own observation."""

    METRICS: ClassVar[dict[str, str]] = {
        "velocity_loss": "squared error of the estimated base velocity, in (m/s)^2 unless the task scales it",
        "next_obs_loss": "squared error of the predicted next observation, in variances of the observation",
    }

    def __init__(self, spec: EnvSpec, config: AgentConfig, sync: Sync = ALONE):
        super().__init__(spec)
        obs, self.history = spec.obs["actor"], spec.history
        self.velocity_columns = slice(*spec.velocity) if spec.velocity else slice(0)
        self.widths = (obs + VELOCITY + config.context_latent, self.widths[1])
        self.norm = RunningNorm(obs, sync)
        self.estimator = _layers(spec.history * obs, *WIDTHS, VELOCITY + config.context_latent)
        self.decoder = _layers(VELOCITY + config.context_latent, *reversed(WIDTHS), obs)

    def forward(self, obs: Obs) -> Features:
        return Features(self.actor_features(obs), obs[self.groups[1]])

    def actor_features(self, obs: Obs) -> Tensor:
        return torch.cat([obs["actor"], self._context(obs["history"])], 1)  # (batch, obs + 3 + latent)

    def auxiliary_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Squared errors of the velocity and of the normalised next observation."""
        self.norm.observe(batch.obs["actor"])
        context = self._context(batch.obs["history"])  # (batch, 3 + latent)
        velocity = batch.obs[self.groups[1]][:, self.velocity_columns]  # (batch, 3)
        velocity_loss = F.mse_loss(context[:, :VELOCITY], velocity)
        next_loss = F.mse_loss(self.decoder(context), self.norm(batch.next_obs["actor"]))
        return velocity_loss + next_loss, {"velocity_loss": velocity_loss.detach(), "next_obs_loss": next_loss.detach()}

    def _context(self, history: Tensor) -> Tensor:
        """Velocity and latent, (batch, 3 + latent), of a history, (batch, history x obs).

        The latent is bounded. An unbounded one would change faster than the actor can follow.
        """
        frames = self.norm(history.unflatten(1, (self.history, -1)))  # (batch, history, obs)
        velocity, latent = self.estimator(frames.flatten(1)).tensor_split([VELOCITY], 1)
        return torch.cat([velocity, torch.tanh(latent)], 1)


class RunningNorm(nn.Module):
    """Normalises observations to mean zero and variance one, by running statistics."""

    momentum = 0.01
    mean: Tensor
    var: Tensor

    def __init__(self, width: int, sync: Sync = ALONE):
        super().__init__()
        self.sync = sync
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))

    def observe(self, rows: Tensor) -> None:
        var, mean = torch.var_mean(rows, 0, correction=0)
        mean, var = whole_moments(self.sync, mean, var)
        count = len(rows) * self.sync.ranks
        self.mean.lerp_(mean, self.momentum)
        self.var.lerp_(var * (count / (count - 1)), self.momentum)

    def forward(self, rows: Tensor) -> Tensor:
        return (rows - self.mean) * (self.var + 1e-5).rsqrt()


def _layers(*widths: int) -> nn.Sequential:
    """Linear layers with ELU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ELU()]
    return nn.Sequential(*layers[:-1])
