"""Noise repetition: one Gaussian draw serves k steps, P(k) ~ k^-exponent, k <= max_repeat (paper: Noise Repetition)."""

from __future__ import annotations

import torch
from torch import Tensor


class RepeatedNoise:
    """One counter for all environments, which makes it free. The noise is not redrawn at episode ends."""

    def __init__(
        self,
        shape: tuple[int, int],
        max_repeat: int,
        exponent: float,
        generator: torch.Generator,
        device: torch.device | str = "cpu",
    ):
        lengths = torch.arange(1, max_repeat + 1, dtype=torch.float64)
        self._probabilities = lengths.pow(-exponent) / lengths.pow(-exponent).sum()  # (max_repeat,)
        self._generator = generator
        self.noise = torch.zeros(shape, device=device)
        self.remaining = 0

    def next(self) -> Tensor:
        """The noise of the next step, (envs, action_dim)."""
        if self.remaining == 0:
            self.remaining = 1 + int(torch.multinomial(self._probabilities, 1, generator=self._generator))
            self.noise = torch.randn(self.noise.shape, generator=self._generator).to(self.noise.device)
        self.remaining -= 1
        return self.noise

    def state_dict(self) -> dict:
        return {"noise": self.noise, "remaining": self.remaining}

    def load_state_dict(self, state: dict) -> None:
        self.noise.copy_(state["noise"])
        self.remaining = state["remaining"]
