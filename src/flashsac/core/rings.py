"""How observations lie in the replay: vectors as they are, images as single frames from which stacks are rebuilt, histories not at all

(they are made of what is there anyway).

All kinds of ring are read at a time (steps since the beginning) of an environment, in two halves. The first is compiled with
the rest of the sampling, and for images says only where the frames lie; the second copies them, each as one block.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from flashsac.types import Pixels


class Ring(Protocol):
    """One observation group."""

    def keep(self, obs: Tensor) -> Tensor:
        """What of an observation is stored."""
        ...

    def at(self, step: Tensor, env: Tensor) -> Tensor:
        """The observation before `step`, or where to find it."""
        ...

    def after(self, step: Tensor, env: Tensor, ended: Tensor, final: Tensor) -> Tensor:
        """The observation that `step` led to: row `final` of the final observations where the episode `ended` there."""
        ...

    def fetch(self, found: Tensor) -> Tensor:
        """The observation, from what `at` or `after` returned."""
        ...


class VectorRing:
    """Numbers, returned as float32."""

    def __init__(self, rows: Tensor, finals: Tensor):
        self.rows, self.finals, self.slots = rows, finals, len(rows)

    def keep(self, obs: Tensor) -> Tensor:
        # float16 ends at 65504: beyond it a finite observation would be stored as Inf.
        return obs.clamp(-65504, 65504) if self.rows.dtype == torch.float16 else obs

    def at(self, step: Tensor, env: Tensor) -> Tensor:
        return self.rows[step % self.slots, env].float()

    def after(self, step: Tensor, env: Tensor, ended: Tensor, final: Tensor) -> Tensor:
        return torch.where(ended[:, None], self.finals[final], self.rows[(step + 1) % self.slots, env]).float()

    def fetch(self, found: Tensor) -> Tensor:
        return found


class HistoryRing:
    """The observations before one, each stored once, as that of its own step."""

    def __init__(self, rows: Tensor, flags: Tensor, length: int):
        self.rows, self.flags, self.length = rows, flags, length
        self.slots = len(rows)

    def keep(self, obs: Tensor) -> Tensor:
        raise AssertionError("a history is not stored: its observations are")

    def at(self, step: Tensor, env: Tensor) -> Tensor:
        return self._read(episode_times(self.flags, step, env, self.length + 1)[:-1], env)

    def after(self, step: Tensor, env: Tensor, ended: Tensor, final: Tensor) -> Tensor:
        return self._read(episode_times(self.flags, step, env, self.length), env)

    def fetch(self, found: Tensor) -> Tensor:
        return found

    def _read(self, times: list[Tensor], env: Tensor) -> Tensor:
        return torch.cat([self.rows[time % self.slots, env].float() for time in times], 1)


class FrameRing:
    """Images. Every frame is stored once, whatever the number of stacks it is part of."""

    def __init__(self, frames: Tensor, flags: Tensor, pixels: Pixels):
        """`frames`: those of all steps and environments, then the final ones."""
        self.frames, self.flags = frames, flags
        self.slots, self.envs = flags.shape
        self.stack, self.channels = pixels.stack, pixels.channels

    def keep(self, obs: Tensor) -> Tensor:
        return obs[:, -self.channels :]

    def at(self, step: Tensor, env: Tensor) -> Tensor:
        return torch.stack([self._place(time, env) for time in episode_times(self.flags, step, env, self.stack)], 1)

    def after(self, step: Tensor, env: Tensor, ended: Tensor, final: Tensor) -> Tensor:
        newest = torch.where(ended, self.slots * self.envs + final, self._place(step + 1, env))
        older = episode_times(self.flags, step, env, self.stack)[1:]
        return torch.stack([*(self._place(time, env) for time in older), newest], 1)

    def fetch(self, found: Tensor) -> Tensor:
        whole = self.frames.index_select(0, found.flatten())  # a block copy for each; indexing would go byte by byte
        return whole.view(len(found), -1, *whole.shape[2:])

    def _place(self, time: Tensor, env: Tensor) -> Tensor:
        return time % self.slots * self.envs + env


def episode_times(flags: Tensor, step: Tensor, env: Tensor, count: int) -> list[Tensor]:
    """The last `count` steps up to `step`, oldest first; an episode's first step stands for those before it."""
    times = [step]
    for _ in range(count - 1):
        before = times[0] - 1
        # Whatever flag a step has, the environment was reset after it.
        begins = (before < 0) | (flags[before % len(flags), env] != 0)
        times.insert(0, torch.where(begins, times[0], before))
    return times
