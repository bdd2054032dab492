"""Images through a convolutional encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flashsac.config.schema import AgentConfig
from flashsac.core.encoders.state import Features
from flashsac.core.networks import MOMENTUM
from flashsac.errors import UnsupportedSpace
from flashsac.types import Batch, EnvSpec, Obs, Pixels

STRIDES = (2, 1, 1, 1)
SMALLEST = 15
"""Height and width below which the last convolution would have nothing left to look at."""


class PixelEncoder(nn.Module):
    """Images, and beside them the state vectors that there are, the privileged ones for the critic alone."""

    costly = True
    # Every step of the encoder moves the mean of its features, within a hundred updates by many times their spread: statistics that
    # old would turn what is learned in training mode into noise when acting. So those of the newest batch are taken.
    momentum = 1.0

    def __init__(self, spec: EnvSpec, config: AgentConfig, dtype: torch.dtype = torch.float32):
        super().__init__()
        assert spec.pixels is not None
        self.images = ImageEncoder(spec.pixels, config.image_channels, config.image_features, dtype)
        groups = (("actor",), (spec.critic_group,))
        self.groups = tuple(tuple(group for group in some if group in spec.obs) for some in groups)
        self.widths = tuple(config.image_features + sum(spec.obs[group] for group in some) for some in self.groups)

    def forward(self, obs: Obs) -> Features:
        seen = self.images(obs["pixels"])
        return Features(*(torch.cat([seen, *(obs[group] for group in some)], -1) for some in self.groups))

    def actor_features(self, obs: Obs) -> Tensor:
        return torch.cat([self.images(obs["pixels"]), *(obs[group] for group in self.groups[0])], -1)

    def auxiliary(self, batch: Batch) -> tuple[float, dict[str, Tensor]]:
        self.images.observe(batch.obs["pixels"])
        return 0.0, {}


class ImageEncoder(nn.Module):
    """Four convolutions, then a bottleneck whose outputs are bounded: linear, LayerNorm, tanh (paper: vision table, DrQ-v2).

    What all images have in common is taken off them first, as BatchNorm does with a state's numbers: it would fill the bottleneck, and
    what moves would be a small ripple on it.
    """

    mean: Tensor
    batches: Tensor

    def __init__(self, pixels: Pixels, channels: int, features: int, dtype: torch.dtype):
        super().__init__()
        inputs = (pixels.shape[0], *[channels] * (len(STRIDES) - 1))
        self.convolutions = nn.Sequential()
        for size, stride in zip(inputs, STRIDES, strict=True):
            self.convolutions.append(Convolution(size, channels, 3, stride))
        height, width = (_size_after(size) for size in (pixels.height, pixels.width))
        if min(height, width) < 1:
            raise UnsupportedSpace(
                f"images of {pixels.height} x {pixels.width} are too small: four convolutions need {SMALLEST} x {SMALLEST} or more."
            )
        self.bottleneck = nn.Linear(channels * height * width, features)
        nn.init.orthogonal_(self.bottleneck.weight)
        nn.init.zeros_(self.bottleneck.bias)
        self.norm = nn.LayerNorm(features)
        # float16 would need its gradients scaled here too; bfloat16 does not.
        self.dtype = torch.float32 if dtype == torch.float16 else dtype
        self.register_buffer("mean", torch.zeros(pixels.shape))
        self.register_buffer("batches", torch.zeros(()))

    def observe(self, images: Tensor) -> None:
        """The mean image, of the first batches as it is, later with the memory of a BatchNorm."""
        self.batches.add_(1.0)
        self.mean.lerp_(self._scaled(images).mean(0), (1.0 / self.batches).clamp_min(MOMENTUM))

    def _scaled(self, images: Tensor) -> Tensor:
        return images.float() / 255.0 - 0.5

    def forward(self, images: Tensor) -> Tensor:
        # Channels last: on a CPU the convolutions take a tenth to a quarter less time (benchmarks/convolution_layout.py).
        x = (self._scaled(images) - self.mean).to(self.dtype, memory_format=torch.channels_last)
        for convolution in self.convolutions:
            x = convolution(x).relu()
        flat = F.linear(x.flatten(1), self.bottleneck.weight.to(self.dtype)).float() + self.bottleneck.bias
        return torch.tanh(self.norm(flat))


class Convolution(nn.Conv2d):
    """In the type of its input; weights stay float32. For a ReLU after it."""

    def reset_parameters(self) -> None:
        nn.init.orthogonal_(self.weight, nn.init.calculate_gain("relu"))
        assert self.bias is not None
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        assert self.bias is not None
        return F.conv2d(x, self.weight.to(x.dtype), self.bias.to(x.dtype), self.stride)


def _size_after(size: int) -> int:
    for stride in STRIDES:
        size = (size - 3) // stride + 1
    return size
