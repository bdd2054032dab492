"""State vectors, which the networks take as they are; and what every encoder offers."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from flashsac.core.networks import MOMENTUM
from flashsac.types import Batch, EnvSpec, Obs


class Features(NamedTuple):
    """The inputs of both networks."""

    actor: Tensor
    critic: Tensor

    def detach(self) -> Features:
        return Features(self.actor.detach(), self.critic.detach())


class StateEncoder(nn.Module):
    """Vectors need none."""

    costly = False
    """True if features should be computed once an update, for actor and critic together."""
    momentum = MOMENTUM
    """Of the running statistics that actor and critic keep of its features."""

    def __init__(self, spec: EnvSpec):
        super().__init__()
        self.groups = ("actor", spec.critic_group)
        self.widths = tuple(spec.obs[group] for group in self.groups)

    def forward(self, obs: Obs) -> Features:
        return Features(*(obs[group] for group in self.groups))

    def actor_features(self, obs: Obs) -> Tensor:
        """All that acting needs: nobody shows privileged observations to a robot."""
        return obs["actor"]

    def auxiliary(self, batch: Batch) -> tuple[Tensor | float, dict[str, Tensor]]:
        """A loss of its own beside the critic's, and what to log of it."""
        return 0.0, {}
