"""The observations that came before the newest one."""

from __future__ import annotations

import torch
from torch import Tensor


class HistoryBuffer:
    """The last observations of every environment, without the newest. An episode's first stands for those before it."""

    def __init__(self, length: int):
        self._length = length
        self.past = torch.zeros(0)  # (envs, length, dim), oldest first
        self.newest = torch.zeros(0)  # (envs, dim)

    def begin(self, obs: Tensor) -> Tensor:
        """Begin an episode of every environment with `obs`, and return the history, (envs, length x dim)."""
        self.past, self.newest = self._repeated(obs), obs
        return self.past.flatten(1)

    def add(self, obs: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """Add `obs`, which begins an episode where `first`, and return two histories before it.

        The second is as if no episode had begun: where one did, it belongs to the final observation of the episode
        before."""
        unbroken = torch.cat([self.past[:, 1:], self.newest[:, None]], 1)
        self.past = torch.where(first[:, None, None], self._repeated(obs), unbroken)
        self.newest = obs
        return self.past.flatten(1), unbroken.flatten(1)

    def _repeated(self, obs: Tensor) -> Tensor:
        return obs[:, None].repeat(1, self._length, 1)
