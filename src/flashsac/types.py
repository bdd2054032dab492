"""The data that flows between simulators and the agent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

CPU = torch.device("cpu")

MAX_REWARD = 1e15
"""Rewards beyond this magnitude count as Inf. The square of a return of 10,000 such rewards, 1e38, still fits in
float32."""

Obs = dict[str, Tensor]
"""Observations by group. "actor", and "critic" where the simulator offers privileged observations, are each (envs,
dim). "history" holds those of the actor before this one, (envs, steps x dim). "pixels" is (envs, frames x channels,
height, width) in uint8. The oldest come first."""


@dataclasses.dataclass(frozen=True)
class Pixels:
    """What a simulator's images look like."""

    channels: int
    height: int
    width: int
    stack: int
    """Frames in one observation: a single one does not show what moves."""

    @property
    def frame(self) -> tuple[int, int, int]:
        return (self.channels, self.height, self.width)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of an observation."""
        return (self.stack * self.channels, self.height, self.width)


class Mirror(NamedTuple):
    """Left and right exchanged: which number each one becomes, and the sign it gets."""

    source: tuple[int, ...]
    sign: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """What the agent must know of a simulator."""

    num_envs: int
    obs: dict[str, int]
    """Width of each observation group that is a vector; there is none where images are all there is to see."""
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
    pixels: Pixels | None = None
    """Images, where there are any."""
    history: int = 0
    """How many of the actor's observations before the newest one are shown too."""
    velocity: tuple[int, int] | None = None
    """Columns of the critic's observation, first and one past the last, that hold the base's linear velocity; where it
    is known."""
    actor_velocity: tuple[int, int] | None = None
    """Columns of the actor's observation that hold the same velocity, first and one past the last, where the actor sees
    it and they are known."""
    mirrors: dict[str, Mirror] = dataclasses.field(default_factory=dict)
    """Mirror images of each observation group and of "action", for robots whose left and right are alike."""
    metrics: tuple[str, ...] = ()
    """Names in Step.info to average into metrics.csv and TensorBoard, as env/NAME: reward terms, "success" by the
    episode."""

    @property
    def critic_group(self) -> str:
        """The group the critic sees: privileged where there is one, else the actor's."""
        return "critic" if "critic" in self.obs else "actor"

    @property
    def groups(self) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
        """Shape and type of one environment's observation, by group."""
        widths = self.obs | ({"history": self.history * self.obs["actor"]} if self.history else {})
        vectors = {group: ((width,), torch.float32) for group, width in widths.items()}
        return vectors | ({"pixels": (self.pixels.shape, torch.uint8)} if self.pixels else {})


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
    """False where the outcome is unknown, so that there is no transition to learn from.

    The simulator returned NaN, Inf or a reward beyond MAX_REWARD (and was reset), or it cut the episode off
    (`truncated`) and showed no final observation."""
    info: dict[str, Any]
    """Whatever else the simulator says, per environment; "success" (bool) is understood by evaluation.

    The names in EnvSpec.metrics are logged. Each has one number per environment, (envs,), or one for all; NaN means no
    value."""

    def broken(self) -> Tensor:
        """Environments whose simulator failed, (envs,): NaN, Inf, or a reward out of range.

        An episode cut off without a final observation is not valid either, but nothing in it is wrong."""
        whole = usable_reward(self.reward)
        for rows in self.final_obs.values():
            whole = whole & torch.isfinite(rows).flatten(1).all(1)
        return ~whole | ~(self.valid | self.truncated)


def usable_reward(reward: Tensor) -> Tensor:
    """False where a reward is NaN, Inf or beyond MAX_REWARD."""
    return reward.abs() <= MAX_REWARD


class Batch(NamedTuple):
    """Transitions for one update; `discount` is gamma^k (1 - terminated), k the true length of the n-step window."""

    obs: Obs
    action: Tensor
    reward: Tensor
    discount: Tensor
    next_obs: Obs


Compiler = Callable[[Any], Callable]
"""A function that takes a bound method and returns a faster one. What its owner holds besides tensors is built into the
code, so it must not change later."""
