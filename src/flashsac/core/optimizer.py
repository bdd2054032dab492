"""Adam as plain tensor operations, so that the compiler can merge it with the rest of the update."""

from __future__ import annotations

import torch
from torch import Tensor


class Adam:
    """Adam (0.9, 0.999) without weight decay; the learning rate is an argument, a tensor, so that a schedule recompiles nothing."""

    betas = (0.9, 0.999)
    eps = 1e-8

    def __init__(self, parameters: list[torch.nn.Parameter]):
        self.parameters = parameters
        device = parameters[0].device
        self.first = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        self.second = [torch.zeros_like(p, requires_grad=False) for p in parameters]
        self.count = torch.zeros((), device=device)

    @torch.no_grad()
    def step(self, gradients: tuple[Tensor, ...], learning_rate: Tensor) -> None:
        beta1, beta2 = self.betas
        self.count.add_(1)
        step_size = learning_rate / (1 - beta1**self.count)
        root_correction = (1 - beta2**self.count).sqrt()
        for p, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
            m.lerp_(g, 1 - beta1)
            v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            p.sub_(step_size * m / (v.sqrt() / root_correction + self.eps))

    def state_dict(self) -> dict:
        return {"first": list(self.first), "second": list(self.second), "count": self.count}

    def load_state_dict(self, state: dict) -> None:
        for ours, theirs in zip((*self.first, *self.second), (*state["first"], *state["second"]), strict=True):
            ours.copy_(theirs)
        self.count.copy_(state["count"])
