"""Transforms of a batch before the update learns from it, compiled with the update. The agent makes their draws."""

from __future__ import annotations

import torch
from torch import Tensor

from flashsac.config.schema import AgentConfig
from flashsac.errors import FlashSACError
from flashsac.types import Batch, EnvSpec, Mirror, Obs


class NoTransform:
    """The default: the batch stays as it is."""

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """The random draw for one batch of `size` transitions."""
        return torch.zeros(0, dtype=torch.int64)

    def __call__(self, batch: Batch, draw: Tensor) -> Batch:
        return batch


class RandomShift:
    """Shifts images by up to `distance` pixels and repeats their border (DrQ). Current and next stack shift apart.

    Padding and cropping back equals reading rows and columns at shifted indices, clamped to the border.
    """

    def __init__(self, distance: int):
        self.distance = distance

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """(2, size, 2): current or next stack, image, rows or columns."""
        return torch.randint(-self.distance, self.distance + 1, (2, size, 2), generator=generator)

    def __call__(self, batch: Batch, draw: Tensor) -> Batch:
        obs, next_obs = (
            obs | {"pixels": shift_images(obs["pixels"], shift)}
            for obs, shift in zip((batch.obs, batch.next_obs), draw, strict=True)
        )
        return batch._replace(obs=obs, next_obs=next_obs)


def shift_images(images: Tensor, shift: Tensor) -> Tensor:
    """images: (batch, channels, height, width); shift: (batch, 2), rows and columns."""
    rows, columns = (
        (torch.arange(size, device=images.device) + shift[:, axis, None]).clamp(0, size - 1)
        for axis, size in enumerate(images.shape[2:])
    )
    image = torch.arange(len(images), device=images.device)[:, None, None, None]
    channel = torch.arange(images.shape[1], device=images.device)[:, None, None]
    return images[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


class RandomMirror:
    """Mirrors half of the transitions, left and right exchanged.

    It gives the benefit of learning from both sides of every transition, at the cost of one.
    """

    def __init__(self, mirrors: dict[str, Mirror], device: torch.device):
        self.maps = {
            group: (torch.tensor(mirror.source, device=device), torch.tensor(mirror.sign, device=device))
            for group, mirror in mirrors.items()
        }

    def draw(self, size: int, generator: torch.Generator) -> Tensor:
        """(size, 1): True where a transition is mirrored."""
        return torch.rand(size, 1, generator=generator) < 0.5

    def __call__(self, batch: Batch, draw: Tensor) -> Batch:
        def mirror(rows: Tensor, group: str) -> Tensor:
            source, sign = self.maps[group]
            return torch.where(draw, rows[:, source] * sign, rows)  # (batch, width)

        def mirror_all(obs: Obs) -> Obs:
            return {group: mirror(rows, group) for group, rows in obs.items()}

        return batch._replace(
            obs=mirror_all(batch.obs), action=mirror(batch.action, "action"), next_obs=mirror_all(batch.next_obs)
        )


def make_transform(
    spec: EnvSpec, config: AgentConfig, device: torch.device
) -> NoTransform | RandomShift | RandomMirror:
    if config.symmetry:
        unknown = sorted({*spec.groups, "action"} - set(spec.mirrors))
        if unknown:
            raise FlashSACError(
                "--agent.symmetry needs to know how this robot looks in a mirror, but the task does not say so for "
                f"{', '.join(unknown)}. Leave it off, or say it: EnvSpec.mirrors; tasks/symmetry.py builds them "
                "from joint names."
            )
        return RandomMirror(spec.mirrors, device)
    if not (spec.pixels and config.image_shift):
        return NoTransform()
    height, width = spec.pixels.height, spec.pixels.width
    if 2 * config.image_shift > min(height, width):
        raise FlashSACError(
            f"--agent.image-shift {config.image_shift} is more than half of an image ({height} x {width}): little of "
            "it would be left to see. About a twentieth of its side is usual (4 of 84)."
        )
    return RandomShift(config.image_shift)
