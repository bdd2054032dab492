"""Adaptive reward scaling keeps returns inside the critic's support (paper: eq. 6)."""

from __future__ import annotations

import torch
from torch import Tensor

from flashsac.core.sync import ALONE, Sync, whole_statistics

EPSILON = 1e-8
"""The constant that eq. 6 adds to the variance."""


class RewardScale:
    """Running variance and largest magnitude of the discounted return, over all environments.

    Statistics follow collection order. Rewards are divided when sampled, so old transitions use the current scale.
    `guard` keeps a single outlier from ruining the scale for the rest of the run (`JumpGuard`).
    """

    def __init__(
        self,
        num_envs: int,
        discount: float,
        value_max: float,
        device: torch.device | str = "cpu",
        *,
        guard: bool = True,
        sync: Sync = ALONE,
    ):
        self.sync = sync
        self.discount = discount
        self.value_max = value_max
        self.returns = torch.zeros(num_envs, dtype=torch.float64, device=device)  # G, (envs,)
        # (4,): count, mean, sum of squared deviations, largest |G|. In float64: 50M float32 additions would drift.
        self.stats = torch.zeros(4, dtype=torch.float64, device=device)
        self._guard = JumpGuard(num_envs, EPSILON**0.5 * value_max, device) if guard else None

    def observe(self, reward: Tensor, done: Tensor, valid: Tensor) -> None:
        """G <- discount G + r; records G, then sets it to zero where the episode ended. All arguments are (envs,)."""
        before = self.stats
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
        if self._guard is not None:
            self.stats = self._guard.observe(reward, valid, before, self.stats, self.returns)

    def restart(self) -> None:
        """Start every episode's return from zero."""
        self.returns.zero_()

    def scale(self) -> Tensor:
        """Eq. 6: the divisor of rewards, a scalar. It covers the environments of all ranks."""
        stats = self.stats if self._guard is None else self._guard.trusted(self.stats)
        count, _, squares, largest = whole_statistics(self.sync.gather(stats))
        variance = squares / count.clamp_min(1.0)
        return torch.maximum((variance + EPSILON).sqrt(), largest / self.value_max).float()

    def outliers(self) -> int:
        """Jumps of the reward that are kept out of the scale; waits for the device."""
        return 0 if self._guard is None else int(self._guard.outliers())

    def state_dict(self) -> dict:
        guard = {} if self._guard is None else {"guard": self._guard.state_dict()}
        return {"returns": self.returns, "stats": self.stats} | guard

    def load_statistics(self, state: dict) -> None:
        """The statistics of another run, without its open episodes and without a jump that was still open."""
        guard = state.get("guard") if self._guard else None
        self.stats.copy_(guard["held"] if guard and guard["age"] > 0 else state["stats"])

    def load_state_dict(self, state: dict) -> None:
        self.returns.copy_(state["returns"])
        self.stats.copy_(state["stats"])
        if self._guard is not None and "guard" in state:  # older checkpoints have none
            self._guard.load_state_dict(state["guard"])


class JumpGuard:
    """A guard that holds a jump of the rewards back until a second, independent jump confirms it.

    A jump is a reward beyond FACTOR times the largest return so far. (A return grows by at most one reward a step.)
    While a jump is open, the scale follows the statistics from before it, and the paper's statistics go on beside them.

    A second jump confirms the level if it comes from another environment, or from the same one at least APART steps
    later. Then the paper's statistics hold again and nothing was lost. Without a second jump within HORIZON
    transitions, the first was an outlier. Then the statistics from before it are taken up again.

    Everything is a tensor on the simulator's device, and the training loop never reads it.
    """

    FACTOR = 100.0
    """Honest tasks stay far below: docs/deviations.md has the measurements."""
    LEVEL = 1.0
    """Smaller returns count as this one, so a reward up to FACTOR is never a jump. Shaped rewards with long tails begin
    near 0.001 and reach 1 within a step."""
    START = 100
    """Transitions before the first comparison. Returns grow from zero by any factor at the start of a run."""
    APART = 100
    HORIZON = 10_000

    def __init__(self, num_envs: int, floor: float, device: torch.device | str):
        self.num_envs, self.floor = num_envs, floor
        """Returns up to `floor` do not change the scale. While there are no larger ones, the first reward sets the
        level."""
        self._held = torch.zeros(4, dtype=torch.float64, device=device)  # statistics from before the open jump
        self._age = torch.zeros((), dtype=torch.int64, device=device)  # transitions since it; 0 if none is open
        self._source = torch.zeros(num_envs, dtype=torch.bool, device=device)  # the environment it came from
        self._rejected = torch.zeros((), dtype=torch.int64, device=device)

    def trusted(self, stats: Tensor) -> Tensor:
        """The statistics that the scale follows, (4,)."""
        return torch.where(self._age > 0, self._held, stats)

    def outliers(self) -> Tensor:
        """Jumps that were not confirmed, the open one included."""
        return self._rejected + (self._age > 0)

    def observe(self, reward: Tensor, valid: Tensor, before: Tensor, stats: Tensor, returns: Tensor) -> Tensor:
        """The statistics to go on with; `before` and `stats` are those without and with this step. It changes
        `returns` in place."""
        is_open = self._age > 0
        held = torch.where(is_open, self._held, before)
        count, largest = held[0], held[3]
        known = (count >= self.START) & (largest > self.floor)
        jumped = valid & (reward.abs() > self.FACTOR * largest.clamp_min(self.LEVEL)) & known
        anywhere = jumped.any()
        source = self._source | jumped
        confirmed = (source.sum() > 1) | (anywhere & (self._age >= self.APART * self.num_envs))
        rejected = is_open & ~confirmed & (self._age >= self.HORIZON)
        stays = (is_open | anywhere) & ~confirmed & ~rejected
        returns.masked_fill_(source & rejected, 0.0)
        self._held, self._source = held, source & stays
        self._age = (self._age + self.num_envs) * stays
        self._rejected = self._rejected + rejected
        return torch.where(rejected, held, stats)

    def state_dict(self) -> dict:
        return {"held": self._held, "age": self._age, "source": self._source, "rejected": self._rejected}

    def load_state_dict(self, state: dict) -> None:
        for name, value in state.items():
            getattr(self, f"_{name}").copy_(value)


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

    def outliers(self) -> int:
        return 0

    def load_statistics(self, state: dict) -> None:
        pass

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state: dict) -> None:
        pass
