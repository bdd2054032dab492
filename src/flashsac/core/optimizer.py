"""Adam as plain tensor operations, so that the compiler can merge it with the rest of the update."""

from __future__ import annotations

import math

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPS = 1e-8


def adam_rates(learning_rate: float, count: int) -> Tensor:
    """Adam's two numbers for its `count`-th step: step size, and the factor that corrects the root of the second moment.

    Computed here, once and in double precision, because in the compiled update they would be powers taken anew for every
    few elements; a tensor, so that a schedule recompiles nothing.
    """
    step_size = learning_rate / (1 - BETAS[0] ** count)
    return torch.tensor((step_size, 1 / math.sqrt(1 - BETAS[1] ** count)))


class Adam:
    """Adam without weight decay. It keeps no count: the caller knows how often it has stepped."""

    def __init__(self, parameters: list[torch.nn.Parameter]):
        self.parameters = parameters
        self.first = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        self.second = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        from torch._dynamo import mark_static_address  # not before `compiler_for` has said where compiled code is kept

        for moment in (*self.first, *self.second):
            mark_static_address(moment)  # what a CUDA graph changes in place must never move

    @torch.no_grad()
    def step(self, gradients: tuple[Tensor, ...], rates: Tensor) -> None:
        """`rates` comes from `adam_rates`."""
        step_size, root_factor = rates[0], rates[1]
        for p, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
            m.lerp_(g, 1 - BETAS[0])
            v.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
            p.sub_(step_size * m / (v.sqrt() * root_factor + EPS))

    def state_dict(self) -> dict:
        return {"first": list(self.first), "second": list(self.second)}

    def load_state_dict(self, state: dict) -> None:
        for ours, theirs in zip((*self.first, *self.second), (*state["first"], *state["second"]), strict=True):
            ours.copy_(theirs)
