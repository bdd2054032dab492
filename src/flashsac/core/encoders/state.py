"""The encoder of state vectors, which are features already; and the interface of every encoder."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from flashsac.core.networks import MOMENTUM
from flashsac.types import Batch, EnvSpec, Obs


class Features(NamedTuple):
    """The inputs of both networks, each (batch, features)."""

    actor: Tensor
    critic: Tensor

    def detach(self) -> Features:
        return Features(self.actor.detach(), self.critic.detach())


class StateEncoder(nn.Module):
    """An encoder that passes vectors through. The critic gets the privileged ones where there are any."""

    METRICS: ClassVar[dict[str, str]] = {}
    """The metrics of `auxiliary_loss`: name and meaning."""
    shares_features = False
    """True if one update computes features once, for actor and critic together, because they are expensive."""
    momentum = MOMENTUM
    """BatchNorm momentum of the first layer of actor and critic, which normalises the features."""

    def __init__(self, spec: EnvSpec):
        super().__init__()
        self.groups = ("actor", spec.critic_group)
        self.widths = tuple(spec.obs[group] for group in self.groups)
        """Feature dimensions for actor and critic."""

    def forward(self, obs: Obs) -> Features:
        return Features(*(obs[group] for group in self.groups))

    def actor_features(self, obs: Obs) -> Tensor:
        """The actor's features alone, (batch, features). Acting has no privileged observations."""
        return obs["actor"]

    def auxiliary_loss(self, batch: Batch) -> tuple[Tensor | float, dict[str, Tensor]]:
        """The encoder's own loss, a scalar that is added to the critic loss, and its metrics."""
        return 0.0, {}
