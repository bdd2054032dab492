"""How the replay stores observations: vectors as they are, images as single frames, histories not at all.

Stacks of images and histories are rebuilt from what is stored. A ring is read at a step (counted from the start of the
run) of an environment, in two parts. The first is compiled with the rest of the sampling; for images it only computes
where the frames lie. The second copies each frame as one block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from flashsac.core.low_precision import FLOAT16_MAX
from flashsac.types import EnvSpec, Pixels

Allocator = Callable[[str, tuple[int, ...], torch.dtype], Tensor]
"""(name, shape, dtype) -> storage; decides between memory, disk and accelerator."""


class Size(NamedTuple):
    """How much a replay holds."""

    slots: int
    """Steps of every environment."""
    envs: int
    finals: int
    """Final observations of episodes."""


class Ring(Protocol):
    """One observation group, as sampling reads it. `step`, `env`, `ended` and `final` are (batch,)."""

    def at(self, step: Tensor, env: Tensor) -> Tensor:
        """The observation before `step`, (batch, ...), or where to find it."""
        ...

    def after(self, step: Tensor, env: Tensor, ended: Tensor, final: Tensor) -> Tensor:
        """The observation that `step` led to: row `final` of the final observations where the episode `ended` there."""
        ...

    def fetch(self, found: Tensor) -> Tensor:
        """The observation, from what `at` or `after` returned."""
        ...


class StoredRing(Ring, Protocol):
    """A ring that stores its group. Its constructor allocates all that it needs."""

    steps: Tensor
    """What is stored of every step, (slots, envs, ...)."""
    finals: Tensor
    """What is stored of the last observations of episodes, (finals, ...)."""

    def to_stored(self, obs: Tensor) -> Tensor:
        """The part of an observation, (rows, ...), that is stored."""
        ...


class VectorRing:
    """Vectors, returned as float32."""

    def __init__(self, group: str, width: int, dtype: torch.dtype, size: Size, allocate: Allocator):
        self.steps = allocate(f"obs.{group}", (size.slots, size.envs, width), dtype)
        self.finals = allocate(f"final.{group}", (size.finals, width), dtype)
        self.slots = size.slots

    def to_stored(self, obs: Tensor) -> Tensor:
        # Beyond float16's range a finite observation would be stored as Inf.
        return obs.clamp(-FLOAT16_MAX, FLOAT16_MAX) if self.steps.dtype == torch.float16 else obs

    def at(self, step: Tensor, env: Tensor) -> Tensor:
        return self.steps[step % self.slots, env].float()  # (batch, width)

    def after(self, step: Tensor, env: Tensor, ended: Tensor, final: Tensor) -> Tensor:
        return torch.where(ended[:, None], self.finals[final], self.steps[(step + 1) % self.slots, env]).float()

    def fetch(self, found: Tensor) -> Tensor:
        return found


class FrameRing:
    """Images. Every frame is stored once, however many stacks it is part of."""

    def __init__(self, pixels: Pixels, flags: Tensor, size: Size, allocate: Allocator):
        self.slots, self.envs = size.slots, size.envs
        self.running = size.slots * size.envs
        # One tensor, so that one index finds a frame: those of all steps and environments first, then the final ones.
        self.frames = allocate("pixels", (self.running + size.finals, *pixels.frame), torch.uint8)
        self.steps = self.frames[: self.running].view(size.slots, size.envs, *pixels.frame)
        self.finals = self.frames[self.running :]
        self.flags = flags
        self.stack, self.channels = pixels.stack, pixels.channels

    def to_stored(self, obs: Tensor) -> Tensor:
        return obs[:, -self.channels :]  # the newest frame of the stack

    def at(self, step: Tensor, env: Tensor) -> Tensor:
        times = episode_steps(self.flags, step, env, self.stack)
        return torch.stack([self._index(time, env) for time in times], 1)  # (batch, stack)

    def after(self, step: Tensor, env: Tensor, ended: Tensor, final: Tensor) -> Tensor:
        newest = torch.where(ended, self.running + final, self._index(step + 1, env))
        older = episode_steps(self.flags, step, env, self.stack)[1:]
        return torch.stack([*(self._index(time, env) for time in older), newest], 1)  # (batch, stack)

    def fetch(self, found: Tensor) -> Tensor:
        whole = self.frames.index_select(0, found.flatten())  # copies blocks; indexing would copy byte by byte
        return whole.view(len(found), -1, *whole.shape[2:])  # (batch, stack x channels, height, width)

    def _index(self, time: Tensor, env: Tensor) -> Tensor:
        return time % self.slots * self.envs + env


class HistoryRing:
    """The actor's observations before the current one, rebuilt from the ring that stores them. It stores nothing."""

    def __init__(self, observations: Tensor, flags: Tensor, length: int):
        self.observations, self.flags, self.length = observations, flags, length
        self.slots = len(observations)

    def at(self, step: Tensor, env: Tensor) -> Tensor:
        return self._read(episode_steps(self.flags, step, env, self.length + 1)[:-1], env)

    def after(self, step: Tensor, env: Tensor, ended: Tensor, final: Tensor) -> Tensor:
        return self._read(episode_steps(self.flags, step, env, self.length), env)

    def fetch(self, found: Tensor) -> Tensor:
        return found

    def _read(self, times: list[Tensor], env: Tensor) -> Tensor:
        # (batch, length x width), the oldest first
        return torch.cat([self.observations[time % self.slots, env].float() for time in times], 1)


def episode_steps(flags: Tensor, step: Tensor, env: Tensor, count: int) -> list[Tensor]:
    """The last `count` steps up to `step`, oldest first, each (batch,). Before an episode's first step, that step
    repeats.

    flags: (slots, envs); step, env: (batch,).
    """
    times = [step]
    for _ in range(count - 1):
        before = times[0] - 1
        # A step with any flag was followed by a reset.
        begins = (before < 0) | (flags[before % len(flags), env] != 0)
        times.insert(0, torch.where(begins, times[0], before))
    return times


class Storage:
    """Everything that sampling reads. Building it allocates it."""

    def __init__(self, spec: EnvSpec, size: Size, obs_dtype: torch.dtype, allocate: Allocator):
        steps = (size.slots, size.envs)
        self.action = allocate("action", (*steps, spec.action_dim), torch.float32)
        self.reward = allocate("reward", steps, torch.float32)
        self.flags = allocate("flags", steps, torch.uint8)
        """How each step ended (windows.py)."""
        self.final_index = allocate("final_index", steps, torch.int32)
        """The row of each step's final observation, where an episode ended."""
        self.stored: dict[str, StoredRing] = {
            group: VectorRing(group, width, obs_dtype, size, allocate) for group, width in spec.obs.items()
        }
        if spec.pixels:
            self.stored["pixels"] = FrameRing(spec.pixels, self.flags, size, allocate)
        self.rings: dict[str, Ring] = {**self.stored}
        if spec.history:
            self.rings["history"] = HistoryRing(self.stored["actor"].steps, self.flags, spec.history)
