"""n-step windows: transitions that respect episodes and carry their true discount."""

from __future__ import annotations

import torch
from torch import Tensor

from flashsac.core.rings import Storage
from flashsac.types import Batch

TERMINATED, TRUNCATED, INVALID = 1, 2, 4
"""Flags of a step; 0 while the episode goes on. The environment was reset after a step with any flag."""


class Windows:
    """A reader of n-step windows in the storage. It holds only tensors and constants, so it can be compiled."""

    def __init__(self, storage: Storage, discount: float, n_step: int):
        self.action, self.reward = storage.action, storage.reward
        self.flags, self.final_index = storage.flags, storage.final_index
        self.rings = storage.rings
        self.slots = len(self.reward)
        self.discount, self.n_step = discount, n_step

    def gather(self, step: Tensor, env: Tensor) -> Batch:
        """The windows that start at `step` of `env`, both (batch,). `Ring.fetch` completes their observations."""
        alive = torch.ones_like(step, dtype=torch.bool)
        length = torch.zeros_like(step)
        returns = torch.zeros(step.shape, device=step.device)
        discount = torch.ones_like(returns)
        for offset in range(self.n_step):
            at = (step + offset) % self.slots
            flags = self.flags[at, env]
            # An invalid step ends the window just before it: its observation is good, its outcome is not.
            use = alive & (flags & INVALID == 0)
            returns += torch.where(use, discount * self.reward[at, env], 0.0)
            discount = torch.where(use, discount * self.discount, discount)
            length += use
            alive = use & (flags == 0)
        last = step + length - 1
        flags, final = (x[last % self.slots, env] for x in (self.flags, self.final_index))
        ended, terminated = flags & (TERMINATED | TRUNCATED) != 0, flags & TERMINATED != 0
        return Batch(
            obs={group: ring.at(step, env) for group, ring in self.rings.items()},
            action=self.action[step % self.slots, env],
            reward=returns,
            discount=discount * ~terminated,
            next_obs={group: ring.after(last, env, ended, final.long()) for group, ring in self.rings.items()},
        )
