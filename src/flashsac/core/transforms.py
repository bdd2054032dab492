"""What is done to a batch before anybody learns from it, inside the compiled update; its random numbers come from outside."""

from __future__ import annotations

import torch
from torch import Tensor

from flashsac.types import Batch


class NoTransform:
    """The default."""

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """The random numbers of one batch."""
        return torch.zeros(0, dtype=torch.int64)

    def __call__(self, batch: Batch, draw: Tensor) -> Batch:
        return batch


class RandomShift:
    """Moves every image by up to `distance` pixels, its border repeated: one shift for a stack, another for the stack it led to.

    Padding by `distance` and cropping back is reading each row and column somewhere else, with places outside clamped to the border.
    """

    def __init__(self, distance: int):
        self.distance = distance

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """(now or next, images, row or column)"""
        return torch.randint(-self.distance, self.distance + 1, (2, size, 2), generator=generator)

    def __call__(self, batch: Batch, draw: Tensor) -> Batch:
        now, following = (
            obs | {"pixels": shifted(obs["pixels"], shift)}
            for obs, shift in zip((batch.obs, batch.next_obs), draw, strict=True)
        )
        return batch._replace(obs=now, next_obs=following)


def shifted(images: Tensor, shift: Tensor) -> Tensor:
    """images: (batch, channels, height, width); shift: (batch, 2), rows and columns."""
    rows, columns = (
        (torch.arange(size, device=images.device) + shift[:, axis, None]).clamp(0, size - 1)
        for axis, size in enumerate(images.shape[2:])
    )
    image = torch.arange(len(images), device=images.device)[:, None, None, None]
    channel = torch.arange(images.shape[1], device=images.device)[:, None, None]
    return images[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


def make_transform(pixels: bool, shift: int) -> NoTransform | RandomShift:
    return RandomShift(shift) if pixels and shift else NoTransform()
