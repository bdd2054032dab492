"""What several learners on one update share: statistics and gradients. One learner alone shares nothing.

The algorithm calls a `Sync` and knows no process, device or network. training/distributed.py has the one for several
processes. Every process (a rank) has the same number of rows in its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class Sync(Protocol):
    """The exchange between ranks. All ranks call the same methods in the same order."""

    rank: int
    ranks: int

    def gather(self, x: Tensor) -> Tensor:
        """The tensors of all ranks, (ranks, ...), in the order of the ranks. Gradients flow back to each."""
        ...

    def mean(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """The mean over ranks of each tensor, in one exchange. It has no gradient."""
        ...


class Alone:
    """One learner: its batch is the whole batch."""

    rank, ranks = 0, 1

    def gather(self, x: Tensor) -> Tensor:
        return x[None]

    def mean(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(tensors)


ALONE = Alone()


def whole_moments(sync: Sync, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance over the rows of all ranks, from those of this rank's rows; both have a gradient."""
    if sync.ranks == 1:
        return mean, var
    means, variances = sync.gather(torch.stack([mean, var])).unbind(1)  # (ranks, ...) each
    mean = means.mean(0)
    return mean, (variances + (means - mean).square()).mean(0)


def whole_statistics(stats: Tensor) -> Tensor:
    """Count, mean, sum of squared deviations and largest magnitude over all ranks, (4,).

    `stats` holds those of each rank, (ranks, 4). Chan et al.: merge one rank after the other."""
    merged = stats[0]
    for other in stats[1:]:
        count, mean, squares, largest = merged
        more, other_mean, other_squares, other_largest = other
        total = (count + more).clamp_min(1.0)
        delta = other_mean - mean
        squares = squares + other_squares + delta.square() * count * more / total
        mean = mean + delta * more / total
        merged = torch.stack([count + more, mean, squares, torch.maximum(largest, other_largest)])
    return merged
