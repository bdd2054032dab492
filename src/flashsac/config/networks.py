"""The settings that shape the networks, and give their outputs a unit. A run that starts from another one shares
them."""

from __future__ import annotations

import dataclasses

from flashsac.config.schema import AgentConfig, TrainConfig
from flashsac.system.limits import flag

NETWORK_SETTINGS = (
    "actor_width",
    "critic_width",
    "blocks",
    "critics",
    "residual",
    "batch_norm",
    "rms_norm",
    "image_channels",
    "image_features",
    "context_latent",
    "value",
    "value_max",
    "atoms",
    "reward_scaling",
)
"""Fields of AgentConfig. `value_max` and `reward_scaling` give the critic's outputs their unit."""


def with_networks_of(config: TrainConfig, parent: TrainConfig) -> TrainConfig:
    """The settings, with the parent's networks."""
    taken = {name: getattr(parent.agent, name) for name in NETWORK_SETTINGS}
    return dataclasses.replace(config, agent=dataclasses.replace(config.agent, **taken))


def different_networks(config: AgentConfig, parent: AgentConfig) -> list[tuple[str, str]]:
    """The flags in which the networks differ, as given and as the parent has them."""
    pairs = [(name, getattr(config, name), getattr(parent, name)) for name in NETWORK_SETTINGS]
    return [(_spelled(name, ours), _spelled(name, theirs)) for name, ours, theirs in pairs if ours != theirs]


def _spelled(name: str, value: object) -> str:
    if isinstance(value, bool):
        return flag(name if value else f"no_{name}", "--agent.")
    return f"{flag(name, '--agent.')} {value}"
