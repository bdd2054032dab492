"""One FlashSAC update, as the paper tells it: actor and temperature, critic and target. Each half is compiled as one unit."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from flashsac.config.schema import AgentConfig
from flashsac.core import losses
from flashsac.core.encoders.build import make_encoder
from flashsac.core.encoders.state import Features
from flashsac.core.networks import cross_batch, keep_weights, make_actor, make_critic, project_weights, separate_batch
from flashsac.core.optimizer import Adam
from flashsac.core.transforms import make_transform
from flashsac.types import Batch, EnvSpec, Obs

Metrics = dict[str, Tensor]


class Chance(NamedTuple):
    """Everything random in one update."""

    transform: Tensor
    actor: Tensor
    """Noise of the actions that the actor's loss looks at."""
    target: Tensor
    """... and of the next actions that the target critic judges."""


class Rates(NamedTuple):
    """Step sizes, as Adam takes them."""

    actor: Tensor
    critic: Tensor


class Learner:
    """Networks, optimizers, and the update. Everything that is optional is decided here, once."""

    def __init__(self, spec: EnvSpec, config: AgentConfig, device: torch.device, dtype: torch.dtype = torch.float32):
        self.encoder = make_encoder(spec, config, dtype).to(device)
        self.value: losses.ValueHead = (
            losses.CategoricalValue(config.atoms, config.value_max, device)
            if config.value == "categorical"
            else losses.ScalarValue()
        )
        self.paired: Callable = cross_batch if config.cross_batch else separate_batch
        self.project: Callable[[nn.Module], None] = project_weights if config.weight_projection else keep_weights
        self.transform = make_transform(spec, config, device)
        self.target_rate = config.target_rate
        self.entropy_target = losses.entropy_target(spec.action_dim, config.target_std)

        self.actor = make_actor(config, self.encoder, spec.action_dim, dtype).to(device)
        self.critic = make_critic(config, self.encoder, spec.action_dim, self.value.outputs, dtype).to(device)
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
        """Actions for collecting data."""
        mean, log_std = self.actor(self.encoder.actor_features(obs), False)
        return torch.tanh(mean + log_std.exp() * noise)

    # What is compiled. From state, where features cost nothing, an update with an actor step is the first and the third of these;
    # from images it is the second, because the features are most of the work.

    def update_actor(self, batch: Batch, chance: Chance, rates: Rates) -> Metrics:
        batch = self.transform(batch, chance.transform)
        with torch.no_grad():
            now, following = self.encoder(batch.obs), self.encoder(batch.next_obs)
        return self._actor_step(now, following, chance.actor, rates.actor)

    def update_both(self, batch: Batch, reward_scale: Tensor, chance: Chance, rates: Rates) -> Metrics:
        batch = self.transform(batch, chance.transform)
        now, following = self._features(batch)
        metrics = self._actor_step(now.detach(), following, chance.actor, rates.actor)
        return metrics | self._critic_step(now, following, batch, reward_scale, chance.target, rates.critic)

    def update_critic(self, batch: Batch, reward_scale: Tensor, chance: Chance, rates: Rates) -> Metrics:
        batch = self.transform(batch, chance.transform)
        return self._critic_step(*self._features(batch), batch, reward_scale, chance.target, rates.critic)

    def _features(self, batch: Batch) -> tuple[Features, Features]:
        """Of the current observations, for the critic's loss to learn from, and of the next ones."""
        with torch.no_grad():
            following = self.encoder(batch.next_obs)
        return self.encoder(batch.obs), following

    def _actor_step(self, now: Features, following: Features, noise: Tensor, rates: Tensor) -> Metrics:
        """Steps 1 and 2: policy, then temperature."""
        mean, log_std = self.paired(self.actor, now.actor, following.actor, "current")
        action, log_prob = losses.squash(mean, log_std, noise)
        # The critic judges in eval mode: the policy's actions must not enter its statistics here.
        q = self.value.mean(self.critic(torch.cat([now.critic, action], -1), False))
        temperature = self.log_temperature.detach().exp()
        loss = losses.actor_loss(log_prob, q, temperature)
        self.actor_optimizer.step(torch.autograd.grad(loss, self.actor_parameters), rates)
        self.project(self.actor)

        temperature_loss = losses.temperature_loss(self.log_temperature, log_prob, self.entropy_target)
        self.temperature_optimizer.step(torch.autograd.grad(temperature_loss, [self.log_temperature]), rates)
        return {
            "actor_loss": loss.detach(),
            "entropy": -log_prob.detach().mean(),
            "temperature": temperature,
            "action_std": log_std.detach().exp().mean(),
        }

    def _critic_step(
        self, now: Features, following: Features, batch: Batch, reward_scale: Tensor, noise: Tensor, rates: Tensor
    ) -> Metrics:
        """Steps 3 and 4: critics and encoder, then the critics' slow target."""
        reward = batch.reward / reward_scale
        current = torch.cat([now.critic, batch.action], -1)
        with torch.no_grad():
            mean, log_std = self.actor(following.actor, False)
            next_action, next_log_prob = losses.squash(mean, log_std, noise)
            after = torch.cat([following.critic, next_action], -1)
            target_out = self.paired(self.target, current, after, "following")
            entropy_cost = self.log_temperature.exp() * next_log_prob
        out = self.paired(self.critic, current, after, "current")
        loss = self.value.loss(out, target_out, reward, batch.discount, entropy_cost)
        auxiliary, more = self.encoder.auxiliary(batch)
        gradients = torch.autograd.grad(loss + auxiliary, [*self.critic_parameters, *self.encoder_parameters])
        self.critic_optimizer.step(gradients[: len(self.critic_parameters)], rates)
        self.encoder_optimizer.step(gradients[len(self.critic_parameters) :], rates)
        self.project(self.critic)
        with torch.no_grad():
            for online, slow in zip(self.critic_parameters, self.target.parameters(), strict=True):
                slow.lerp_(online, self.target_rate)
        return {"critic_loss": loss.detach(), "q": self.value.mean(out.detach()).mean(), "reward": reward.mean()} | more

    def finite(self) -> bool:
        """False once anything has become NaN or Inf, from which no update leads back. Waits for the device."""
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

    def _parts(self) -> list[tuple[str, nn.Module | Adam]]:
        names = ["actor", "critic", "target", "actor_optimizer", "critic_optimizer", "temperature_optimizer"]
        names += ["encoder", "encoder_optimizer"] if self.encoder_parameters else []
        return [(name, getattr(self, name)) for name in names]
