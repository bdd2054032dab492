"""The encoder of images: convolutions and a bottleneck."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from flashsac.config.schema import AgentConfig
from flashsac.core.encoders.state import Features
from flashsac.core.networks import MOMENTUM
from flashsac.core.sync import ALONE, Sync
from flashsac.errors import UnsupportedSpace
from flashsac.types import Batch, EnvSpec, Obs, Pixels

STRIDES = (2, 1, 1, 1)
SMALLEST = 15
"""The smallest height and width that leave the last convolution an output."""


class PixelEncoder(nn.Module):
    """Image features, followed by the state vectors. Only the critic gets the privileged ones."""

    METRICS: ClassVar[dict[str, str]] = {}
    shares_features = True
    # Every encoder step moves the mean of the features, within a hundred updates by many standard deviations. With
    # statistics that old, acting (eval mode) would not match training. So the newest batch alone sets them.
    momentum = 1.0

    def __init__(self, spec: EnvSpec, config: AgentConfig, dtype: torch.dtype = torch.float32, sync: Sync = ALONE):
        super().__init__()
        assert spec.pixels is not None
        self.images = ImageEncoder(spec.pixels, config.image_channels, config.image_features, dtype, sync)
        both = (("actor",), (spec.critic_group,))
        self.groups = tuple(tuple(group for group in groups if group in spec.obs) for groups in both)
        self.widths = tuple(config.image_features + sum(spec.obs[group] for group in groups) for groups in self.groups)

    def forward(self, obs: Obs) -> Features:
        images = self.images(obs["pixels"])  # (batch, image features)
        return Features(*(torch.cat([images, *(obs[group] for group in groups)], -1) for groups in self.groups))

    def actor_features(self, obs: Obs) -> Tensor:
        return torch.cat([self.images(obs["pixels"]), *(obs[group] for group in self.groups[0])], -1)

    def auxiliary_loss(self, batch: Batch) -> tuple[float, dict[str, Tensor]]:
        """No loss; the mean image follows the batch."""
        self.images.observe(batch.obs["pixels"])
        return 0.0, {}


class ImageEncoder(nn.Module):
    """Four convolutions, then a bounded bottleneck: linear, LayerNorm, tanh (paper: vision hyperparameters; DrQ-v2).

    It subtracts the mean image first, as BatchNorm does for a state. Otherwise the background would dominate the
    bottleneck, and motion would be a small signal beside it.
    """

    mean: Tensor
    batches: Tensor

    def __init__(self, pixels: Pixels, channels: int, features: int, dtype: torch.dtype, sync: Sync = ALONE):
        super().__init__()
        self.sync = sync
        inputs = (pixels.shape[0], *[channels] * (len(STRIDES) - 1))
        self.convolutions = nn.Sequential()
        for size, stride in zip(inputs, STRIDES, strict=True):
            self.convolutions.append(Convolution(size, channels, 3, stride))
        height, width = (_size_after(size) for size in (pixels.height, pixels.width))
        if min(height, width) < 1:
            raise UnsupportedSpace(
                f"images of {pixels.height} x {pixels.width} are too small: four convolutions need "
                f"{SMALLEST} x {SMALLEST} or more."
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
        """Move the mean image: the plain mean of the first batches, later an average with BatchNorm's momentum."""
        self.batches.add_(1.0)
        (mean,) = self.sync.mean([self._scaled(images).mean(0)])
        self.mean.lerp_(mean, (1.0 / self.batches).clamp_min(MOMENTUM))

    def _scaled(self, images: Tensor) -> Tensor:
        return images.float() / 255.0 - 0.5

    def forward(self, images: Tensor) -> Tensor:
        """images: (batch, stack x channels, height, width) in uint8 -> (batch, features) in [-1, 1]."""
        # Channels last: on a CPU the convolutions take 10 to 25% less time (benchmarks/convolution_layout.py).
        x = (self._scaled(images) - self.mean).to(self.dtype, memory_format=torch.channels_last)
        for convolution in self.convolutions:
            x = convolution(x).relu()  # (batch, channels, smaller height, smaller width)
        flat = F.linear(x.flatten(1), self.bottleneck.weight.to(self.dtype)).float() + self.bottleneck.bias
        return torch.tanh(self.norm(flat))


class Convolution(nn.Conv2d):
    """A convolution in the type of its input, initialised for the ReLU after it. Weights stay float32."""

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
