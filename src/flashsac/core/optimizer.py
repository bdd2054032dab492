"""Adam as plain tensor operations, so that the compiler can merge it with the rest of the update.

The projection of the weights that follows each step is in networks.py.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPS = 1e-8


def adam_step_size(learning_rate: float, count: int) -> Tensor:
    """The two scalars of Adam's `count`-th step, (2,): its step size, and the correction of the second moment's root.

    Both include the bias correction. They are computed here, once and in double precision: the compiled update would
    take the powers anew for every few elements. They are a tensor, so that a schedule recompiles nothing.
    """
    step_size = learning_rate / (1 - BETAS[0] ** count)
    return torch.tensor((step_size, 1 / math.sqrt(1 - BETAS[1] ** count)))


class Adam:
    """Adam without weight decay. The caller counts the steps."""

    def __init__(self, parameters: list[torch.nn.Parameter]):
        self.parameters = parameters
        self.first = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        self.second = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        from torch._dynamo import mark_static_address  # not before `compiler_for` has said where compiled code is kept

        for moment in (*self.first, *self.second):
            mark_static_address(moment)  # what a CUDA graph changes in place must never move

    @torch.no_grad()
    def step(self, gradients: tuple[Tensor, ...], step_size: Tensor) -> None:
        """One step along `gradients`. `step_size` comes from `adam_step_size`."""
        rate, root_correction = step_size[0], step_size[1]
        for p, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
            m.lerp_(g, 1 - BETAS[0])
            v.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
            p.sub_(rate * m / (v.sqrt() * root_correction + EPS))

    def state_dict(self) -> dict:
        return {"first": list(self.first), "second": list(self.second)}

    def load_state_dict(self, state: dict) -> None:
        for ours, theirs in zip((*self.first, *self.second), (*state["first"], *state["second"]), strict=True):
            ours.copy_(theirs)
