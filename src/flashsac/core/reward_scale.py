"""Adaptive reward scaling: keeps returns inside the critic's support (paper: Distributional Critic with Adaptive Reward Scaling)."""

from __future__ import annotations

import torch
from torch import Tensor


class RewardScale:
    """Running variance and largest magnitude of the discounted return, over all environments.

    Statistics follow collection order; the division happens when a batch is sampled, so old transitions are on today's scale.
    """

    def __init__(self, num_envs: int, discount: float, value_max: float, device: torch.device | str = "cpu"):
        self.discount = discount
        self.value_max = value_max
        self.returns = torch.zeros(num_envs, dtype=torch.float64, device=device)
        # count, mean, sum of squared deviations, largest |G|; float64, because 50M float32 additions would drift.
        self.stats = torch.zeros(4, dtype=torch.float64, device=device)

    def observe(self, reward: Tensor, done: Tensor, valid: Tensor) -> None:
        """G <- discount G + r, record it, then zero it where the episode ended."""
        self.returns.mul_(self.discount).add_(torch.where(valid, reward, 0.0))
        weight = valid.to(self.returns.dtype)
        count, mean, spread, largest = self.stats
        # Chan et al.: merge this step's batch of returns into the running moments.
        new = weight.sum()
        total = (count + new).clamp_min(1.0)
        batch_mean = (self.returns * weight).sum() / new.clamp_min(1.0)
        delta = batch_mean - mean
        spread = spread + ((self.returns - batch_mean).square() * weight).sum() + delta.square() * count * new / total
        mean = mean + delta * new / total
        largest = torch.maximum(largest, (self.returns.abs() * weight).max())
        self.stats = torch.stack([count + new, mean, spread, largest])
        self.returns.masked_fill_(done | ~valid, 0.0)

    def restart(self) -> None:
        """Every episode begins anew."""
        self.returns.zero_()

    def scale(self) -> Tensor:
        """What to divide rewards by."""
        count, _, spread, largest = self.stats
        variance = spread / count.clamp_min(1.0)
        return torch.maximum((variance + 1e-8).sqrt(), largest / self.value_max).float()

    def state_dict(self) -> dict:
        return {"returns": self.returns, "stats": self.stats}

    def load_state_dict(self, state: dict) -> None:
        self.returns.copy_(state["returns"])
        self.stats.copy_(state["stats"])


class NoRewardScale:
    """Ablation: rewards as they are."""

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
