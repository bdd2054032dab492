"""The data that flows between simulators and the agent."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
from torch import Tensor

CPU = torch.device("cpu")

Obs = dict[str, Tensor]
"""Observations by group: "actor" always, "critic" where the simulator offers privileged observations. Each (envs, dim)."""


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """What the agent must know of a simulator."""

    num_envs: int
    obs: dict[str, int]
    """Width of each observation group."""
    action_dim: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    """The simulator's own bounds. The agent always acts in [-1, 1]; the adapter rescales."""
    max_episode_steps: int | None
    device: torch.device = CPU
    fps: float = 30.0
    """Control steps per second of simulated time, for videos at real speed."""
    can_save_state: bool = False
    """True if state_dict() / load_state_dict() bring the simulator back bit for bit."""

    @property
    def critic_group(self) -> str:
        """The group the critic sees: privileged where there is one, else the actor's."""
        return "critic" if "critic" in self.obs else "actor"


class Step(NamedTuple):
    """The outcome of one step of every environment. Environments that finished have been reset already."""

    obs: Obs
    """What to act on next: the first observation of the new episode where one has ended."""
    reward: Tensor
    terminated: Tensor
    """The episode ended in a state of no future: do not bootstrap."""
    truncated: Tensor
    """The episode was cut off, by a time limit for example: bootstrap from `final_obs`."""
    final_obs: Obs
    """What each transition led to; differs from `obs` only where an episode has ended."""
    valid: Tensor
    """False where the outcome is unknown, so that there is no transition to learn from: the simulator returned NaN or Inf (and was
    reset), or it cut the episode off (`truncated`) and showed no final observation."""
    info: dict[str, Any]
    """Whatever else the simulator says, per environment; "success" (bool) is understood by evaluation."""


class Batch(NamedTuple):
    """Transitions for one update; `discount` is gamma^k (1 - terminated), k the true length of the n-step window."""

    obs: Obs
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_obs: Obs
