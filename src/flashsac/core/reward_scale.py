"""Adaptive reward scaling keeps returns inside the critic's support (paper: eq. 6)."""

from __future__ import annotations

import torch
from torch import Tensor


class RewardScale:
    """Running variance and largest magnitude of the discounted return, over all environments.

    Statistics follow collection order. Rewards are divided when sampled, so old transitions use the current scale.
    """

    def __init__(self, num_envs: int, discount: float, value_max: float, device: torch.device | str = "cpu"):
        self.discount = discount
        self.value_max = value_max
        self.returns = torch.zeros(num_envs, dtype=torch.float64, device=device)  # G, (envs,)
        # (4,): count, mean, sum of squared deviations, largest |G|. In float64: 50M float32 additions would drift.
        self.stats = torch.zeros(4, dtype=torch.float64, device=device)

    def observe(self, reward: Tensor, done: Tensor, valid: Tensor) -> None:
        """G <- discount G + r; records G, then sets it to zero where the episode ended. All arguments are (envs,)."""
        self.returns.mul_(self.discount).add_(torch.where(valid, reward, 0.0))
        weight = valid.to(self.returns.dtype)
        count, mean, squares, largest = self.stats
        # Chan et al.: merge this step's batch of returns into the running moments.
        new = weight.sum()
        total = (count + new).clamp_min(1.0)
        batch_mean = (self.returns * weight).sum() / new.clamp_min(1.0)
        delta = batch_mean - mean
        squares = squares + ((self.returns - batch_mean).square() * weight).sum() + delta.square() * count * new / total
        mean = mean + delta * new / total
        largest = torch.maximum(largest, (self.returns.abs() * weight).max())
        self.stats = torch.stack([count + new, mean, squares, largest])
        self.returns.masked_fill_(done | ~valid, 0.0)

    def restart(self) -> None:
        """Starts every episode's return from zero."""
        self.returns.zero_()

    def scale(self) -> Tensor:
        """Eq. 6: the divisor of rewards, a scalar."""
        count, _, squares, largest = self.stats
        variance = squares / count.clamp_min(1.0)
        return torch.maximum((variance + 1e-8).sqrt(), largest / self.value_max).float()

    def state_dict(self) -> dict:
        return {"returns": self.returns, "stats": self.stats}

    def load_state_dict(self, state: dict) -> None:
        self.returns.copy_(state["returns"])
        self.stats.copy_(state["stats"])


class NoRewardScale:
    """Ablation: rewards keep their scale."""

    def __init__(self, device: torch.device | str = "cpu"):
        self._one = torch.ones((), device=device)

    def observe(self, reward: Tensor, done: Tensor, valid: Tensor) -> None:
        pass

    def restart(self) -> None:
        pass

    def scale(self) -> Tensor:
        return self._one

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass
