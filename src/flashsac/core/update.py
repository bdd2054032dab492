"""One FlashSAC update, in the paper's order: actor and temperature, critic and target. Each half is compiled as a unit.

Equation numbers are the paper's. Tensors start with the batch axis; critic outputs start with (members, batch).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from flashsac.config.schema import AgentConfig
from flashsac.core import losses, networks
from flashsac.core.encoders.build import make_encoder
from flashsac.core.encoders.state import Features
from flashsac.core.networks import Half, make_actor, make_critic
from flashsac.core.optimizer import Adam
from flashsac.core.sync import ALONE, Sync
from flashsac.core.transforms import make_transform
from flashsac.types import Batch, EnvSpec, Obs

Metrics = dict[str, Tensor]


class UpdateNoise(NamedTuple):
    """Everything random in one update."""

    transform: Tensor
    """The draw of the batch transform (transforms.py)."""
    actor: Tensor
    """Gaussian noise of the actions in the actor loss, (batch, action_dim)."""
    target: Tensor
    """Gaussian noise of the next actions in the critic target, (batch, action_dim)."""


class StepSizes(NamedTuple):
    """Adam's step sizes, each (2,) from `adam_step_size`. They differ because the actor steps less often."""

    actor: Tensor
    """Actor and temperature."""
    critic: Tensor
    """Critic and encoder."""


class Learner:
    """Networks, optimizers, and the update. Every optional part is chosen here, once."""

    METRICS: ClassVar[dict[str, str]] = {
        "critic_loss": "critic loss: cross-entropy in nats, or squared error with --agent.value scalar",
        "actor_loss": "actor loss: temperature x log-probability minus Q, in scaled reward",
        "q": "mean Q-value of the batch over all critics, in scaled reward",
        "reward": "mean n-step reward of the batch, divided by reward_scale",
        "entropy": "entropy of the policy, in nats",
        "temperature": "weight of the entropy (alpha), in scaled reward per nat",
        "action_std": "mean standard deviation of the policy before tanh, in units of the action range [-1, 1]",
    }

    def __init__(
        self,
        spec: EnvSpec,
        config: AgentConfig,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        sync: Sync = ALONE,
    ):
        # The choices. Privileged observations reach the critic through the encoder (EnvSpec.critic_group).
        self.sync = sync
        self.encoder = make_encoder(spec, config, dtype, sync).to(device)
        self.value: losses.ValueHead = (
            losses.CategoricalValue(config.atoms, config.value_max, device)
            if config.value == "categorical"
            else losses.ScalarValue()
        )
        self.joint_forward: Callable = networks.cross_batch_forward if config.cross_batch else networks.separate_forward
        self.project: Callable = networks.project_weights if config.weight_projection else networks.no_projection
        self.transform = make_transform(spec, config, device)
        self.target_rate = config.target_rate
        self.entropy_target = losses.entropy_target(spec.action_dim, config.target_std)

        self.actor = make_actor(config, self.encoder, spec.action_dim, dtype, sync).to(device)
        self.critic = make_critic(config, self.encoder, spec.action_dim, self.value.outputs, dtype, sync).to(device)
        self.log_temperature = nn.Parameter(torch.tensor(config.initial_temperature, device=device).log())
        self.project(self.actor)
        self.project(self.critic)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)

        self.encoder_parameters = list(self.encoder.parameters())
        self.actor_parameters = list(self.actor.parameters())
        self.critic_parameters = list(self.critic.parameters())
        self.encoder_optimizer = Adam(self.encoder_parameters)
        self.actor_optimizer = Adam(self.actor_parameters)
        self.critic_optimizer = Adam(self.critic_parameters)
        self.temperature_optimizer = Adam([self.log_temperature])

    def explore(self, obs: Obs, noise: Tensor) -> Tensor:
        """Actions for collecting data, (envs, action_dim). `noise` has the same shape."""
        mean, log_std = self.actor(self.encoder.actor_features(obs), False)
        return torch.tanh(mean + log_std.exp() * noise)

    # The compiled units. From state, features cost nothing: an actor update is `update_actor`, then `update_critic`.
    # From images, features are most of the work: `update_both` computes them once.

    def update_actor(self, batch: Batch, noise: UpdateNoise, step_sizes: StepSizes) -> Metrics:
        batch = self.transform(batch, noise.transform)
        with torch.no_grad():
            features, next_features = self.encoder(batch.obs), self.encoder(batch.next_obs)
        return self._actor_step(features, next_features, noise.actor, step_sizes.actor)

    def update_both(self, batch: Batch, reward_scale: Tensor, noise: UpdateNoise, step_sizes: StepSizes) -> Metrics:
        batch = self.transform(batch, noise.transform)
        features, next_features = self._features(batch)
        metrics = self._actor_step(features.detach(), next_features, noise.actor, step_sizes.actor)
        return metrics | self._critic_step(
            features, next_features, batch, reward_scale, noise.target, step_sizes.critic
        )

    def update_critic(self, batch: Batch, reward_scale: Tensor, noise: UpdateNoise, step_sizes: StepSizes) -> Metrics:
        batch = self.transform(batch, noise.transform)
        return self._critic_step(*self._features(batch), batch, reward_scale, noise.target, step_sizes.critic)

    def _features(self, batch: Batch) -> tuple[Features, Features]:
        """Features of current observations, with a gradient for the encoder, and of next observations, without."""
        with torch.no_grad():
            next_features = self.encoder(batch.next_obs)
        return self.encoder(batch.obs), next_features

    def actor_loss(self, features: Features, next_features: Features, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Eq. 2, a scalar; beside it log-probability, (batch,), and log standard deviation, (batch, action_dim)."""
        # (batch, action_dim) each
        mean, log_std = self.joint_forward(self.actor, features.actor, next_features.actor, half=Half.CURRENT)
        action, log_prob = losses.squash(mean, log_std, noise)  # (batch, action_dim), (batch,)
        # The critic runs in eval mode: the policy's actions must not enter its statistics here.
        q = self.value.mean(self.critic(torch.cat([features.critic, action], -1), False))  # (members, batch)
        return losses.actor_loss(log_prob, q, self.log_temperature.detach().exp()), log_prob, log_std

    def _actor_step(self, features: Features, next_features: Features, noise: Tensor, step_size: Tensor) -> Metrics:
        """Policy (eq. 2), then temperature (towards the entropy target of eq. 7)."""
        temperature = self.log_temperature.detach().exp()
        loss, log_prob, log_std = self.actor_loss(features, next_features, noise)
        temperature_loss = losses.temperature_loss(self.log_temperature, log_prob, self.entropy_target)
        gradients = self.sync.mean(
            [
                *torch.autograd.grad(loss, self.actor_parameters),
                *torch.autograd.grad(temperature_loss, [self.log_temperature]),
            ]
        )
        self.actor_optimizer.step(gradients[:-1], step_size)
        self.project(self.actor)
        self.temperature_optimizer.step(gradients[-1:], step_size)
        return {
            "actor_loss": loss.detach(),
            "entropy": -log_prob.detach().mean(),
            "temperature": temperature,
            "action_std": log_std.detach().exp().mean(),
        }

    def critic_loss(
        self, features: Features, next_features: Features, batch: Batch, reward_scale: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Eq. 4 and 5, as cross-entropy of distributions, a scalar; beside it the outputs, (members, batch, outputs).

        The target has no gradient."""
        reward = batch.reward / reward_scale  # eq. 6, (batch,)
        current_rows = torch.cat([features.critic, batch.action], -1)  # (batch, critic features + action_dim)
        with torch.no_grad():
            mean, log_std = self.actor(next_features.actor, False)
            next_action, next_log_prob = losses.squash(mean, log_std, noise)  # (batch, action_dim), (batch,)
            next_rows = torch.cat([next_features.critic, next_action], -1)
            target_out = self.joint_forward(self.target, current_rows, next_rows, half=Half.NEXT)
            entropy_cost = self.log_temperature.exp() * next_log_prob  # (batch,)
        out = self.joint_forward(self.critic, current_rows, next_rows, half=Half.CURRENT)  # (members, batch, outputs)
        return self.value.loss(out, target_out, reward, batch.discount, entropy_cost), out

    def _critic_step(
        self,
        features: Features,
        next_features: Features,
        batch: Batch,
        reward_scale: Tensor,
        noise: Tensor,
        step_size: Tensor,
    ) -> Metrics:
        """Critics and encoder (eq. 4 and 5), then the target critics (eq. 3)."""
        loss, out = self.critic_loss(features, next_features, batch, reward_scale, noise)
        auxiliary_loss, auxiliary_metrics = self.encoder.auxiliary_loss(batch)
        parameters = [*self.critic_parameters, *self.encoder_parameters]
        gradients = self.sync.mean(torch.autograd.grad(loss + auxiliary_loss, parameters))
        self.critic_optimizer.step(gradients[: len(self.critic_parameters)], step_size)
        self.encoder_optimizer.step(gradients[len(self.critic_parameters) :], step_size)
        self.project(self.critic)
        with torch.no_grad():
            for online, slow in zip(self.critic_parameters, self.target.parameters(), strict=True):
                slow.lerp_(online, self.target_rate)
        metrics = {"critic_loss": loss.detach(), "q": self.value.mean(out.detach()).mean()}
        metrics["reward"] = (batch.reward / reward_scale).mean()
        return metrics | auxiliary_metrics

    def finite(self) -> bool:
        """False once any weight or moment is NaN or Inf; no update recovers from that. The call waits for the
        device."""
        tensors = torch.utils._pytree.tree_leaves(self.state_dict())
        return bool(torch.stack([tensor.isfinite().all() for tensor in tensors]).all())

    def state_dict(self) -> dict:
        return {name: part.state_dict() for name, part in self._parts()} | {
            "log_temperature": self.log_temperature.detach()
        }

    def load_state_dict(self, state: dict) -> None:
        for name, part in self._parts():
            part.load_state_dict(state[name])
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])

    def load_networks(self, state: dict) -> None:
        """Networks and temperature from the state of another run. The optimizers stay fresh."""
        for name, part in self._parts():
            if isinstance(part, nn.Module):
                part.load_state_dict(state[name])
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])

    def _parts(self) -> list[tuple[str, nn.Module | Adam]]:
        names = ["actor", "critic", "target", "actor_optimizer", "critic_optimizer", "temperature_optimizer"]
        names += ["encoder", "encoder_optimizer"] if self.encoder_parameters else []
        return [(name, getattr(self, name)) for name in names]
