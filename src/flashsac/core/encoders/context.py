"""A context estimator (CENet, of DreamWaQ): what the last observations say of the robot and the ground, for the actor.

It guesses the base's velocity, which no sensor on the robot shows, and a few numbers from which, with that velocity, the next
observation can be told. Simulation knows both, so it learns from them directly; the actor takes its guesses as they are.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flashsac.config.schema import AgentConfig
from flashsac.core.encoders.state import Features, StateEncoder
from flashsac.types import Batch, EnvSpec, Obs

WIDTHS = (128, 64)
"""Of the estimator's layers; the decoder's are the same, backwards."""
VELOCITY = 3


class ContextEncoder(StateEncoder):
    """The actor sees its observation, the velocity that is guessed, and the latent; the critic what it sees anyway."""

    def __init__(self, spec: EnvSpec, config: AgentConfig):
        super().__init__(spec)
        obs, self.history = spec.obs["actor"], spec.history
        self.velocity_columns = slice(*spec.velocity) if spec.velocity else slice(0)
        self.widths = (obs + VELOCITY + config.context_latent, self.widths[1])
        self.norm = RunningNorm(obs)
        self.estimator = _layers(spec.history * obs, *WIDTHS, VELOCITY + config.context_latent)
        self.decoder = _layers(VELOCITY + config.context_latent, *reversed(WIDTHS), obs)

    def forward(self, obs: Obs) -> Features:
        return Features(self.actor_features(obs), obs[self.groups[1]])

    def actor_features(self, obs: Obs) -> Tensor:
        return torch.cat([obs["actor"], self._context(obs["history"])], 1)

    def auxiliary(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Squared errors of the velocity and of the next observation, in units of its spread."""
        self.norm.observe(batch.obs["actor"])
        context = self._context(batch.obs["history"])
        velocity = batch.obs[self.groups[1]][:, self.velocity_columns]
        velocity_loss = F.mse_loss(context[:, :VELOCITY], velocity)
        next_loss = F.mse_loss(self.decoder(context), self.norm(batch.next_obs["actor"]))
        return velocity_loss + next_loss, {"velocity_loss": velocity_loss.detach(), "next_obs_loss": next_loss.detach()}

    def _context(self, history: Tensor) -> Tensor:
        """The velocity, then the latent, which is bounded so that it cannot run away from an actor that follows slowly."""
        frames = self.norm(history.unflatten(1, (self.history, -1)))
        velocity, latent = self.estimator(frames.flatten(1)).tensor_split([VELOCITY], 1)
        return torch.cat([velocity, torch.tanh(latent)], 1)


class RunningNorm(nn.Module):
    """Observations at mean zero and spread one, by running statistics."""

    momentum = 0.01
    mean: Tensor
    var: Tensor

    def __init__(self, width: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))

    def observe(self, rows: Tensor) -> None:
        var, mean = torch.var_mean(rows, 0)
        self.mean.lerp_(mean, self.momentum)
        self.var.lerp_(var, self.momentum)

    def forward(self, rows: Tensor) -> Tensor:
        return (rows - self.mean) * (self.var + 1e-5).rsqrt()


def _layers(*widths: int) -> nn.Sequential:
    """Linear layers with ELU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ELU()]
    return nn.Sequential(*layers[:-1])
