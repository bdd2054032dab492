"""The networks: unit-norm layers with an ensemble axis. Actor (one member) and critics share every layer.

Activations have the shape (members, batch, features). Parameters carry the same leading axis.
"""

from __future__ import annotations

import enum
import math
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from flashsac.config.schema import AgentConfig
from flashsac.core.low_precision import LowPrecisionMatmul
from flashsac.core.sync import ALONE, Sync, whole_moments

ALL_ROWS = slice(None)
MOMENTUM = 0.01
"""BatchNorm momentum: the weight of the newest batch in the running statistics."""


def _unit_rows(weight: Tensor) -> Tensor:
    return weight / (weight.square().sum(-1, keepdim=True) + 1e-8).sqrt()


class Linear(nn.Module):
    """A linear layer whose weight rows have unit norm. Hidden layers have no bias; heads have a free one.

    Only the matrix product runs in `dtype`; parameters and activations stay float32.
    """

    def __init__(
        self, members: int, inputs: int, outputs: int, *, bias: bool = False, dtype: torch.dtype = torch.float32
    ):
        super().__init__()
        weight = torch.empty(members, outputs, inputs)
        for member in weight:
            nn.init.orthogonal_(member)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(members, 1, outputs)) if bias else None
        self.dtype = dtype

    def forward(self, x: Tensor, train: bool) -> Tensor:
        """x: (members, batch, inputs) -> (members, batch, outputs)."""
        # Only training passes change weights, so the others need no weight gradient.
        y = LowPrecisionMatmul.apply(x, self.weight if train else self.weight.detach(), self.dtype)
        return y if self.bias is None else y + self.bias

    def projected(self) -> dict[nn.Parameter, Tensor]:
        return {self.weight: _unit_rows(self.weight)}


class BatchNorm(nn.Module):
    """BatchNorm for each member over its own batch. `train` is an argument, not a mode: one update uses both.

    The batch is that of all ranks together, so its statistics do not depend on how many share the work."""

    eps = 1e-5
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, members: int, width: int, momentum: float = MOMENTUM, sync: Sync = ALONE):
        super().__init__()
        self.sync, self.momentum = sync, momentum
        self.scale = nn.Parameter(torch.ones(members, 1, width))
        self.bias = nn.Parameter(torch.zeros(members, 1, width))
        self.register_buffer("running_mean", torch.zeros(members, 1, width))
        self.register_buffer("running_var", torch.ones(members, 1, width))

    def forward(self, x: Tensor, train: bool) -> Tensor:
        """x: (members, batch, width). A training pass also moves the running statistics."""
        if train:
            var, mean = torch.var_mean(x, dim=1, keepdim=True, correction=0)  # (members, 1, width)
            mean, var = whole_moments(self.sync, mean, var)
            rows = x.shape[1] * self.sync.ranks
            unbiased = var.detach() * (rows / (rows - 1))
            self.running_mean.lerp_(mean.detach(), self.momentum)
            self.running_var.lerp_(unbiased, self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        return (x - mean) * ((var + self.eps).rsqrt() * self.scale) + self.bias

    def projected(self) -> dict[nn.Parameter, Tensor]:
        """Scale and bias together have norm sqrt(width)."""
        # (members, 1, 1)
        squares = self.scale.square().sum(-1, keepdim=True) + self.bias.square().sum(-1, keepdim=True)
        factor = math.sqrt(self.scale.shape[-1]) / (squares + 1e-8).sqrt()
        return {self.scale: self.scale * factor, self.bias: self.bias * factor}


class RMSNorm(nn.Module):
    """RMSNorm: bounds the feature norm of every sample."""

    def __init__(self, members: int, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(members, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.scale

    def projected(self) -> dict[nn.Parameter, Tensor]:
        return {self.scale: _unit_rows(self.scale) * math.sqrt(self.scale.shape[-1])}


class NoNorm(nn.Module):
    """Ablation: takes the place of a BatchNorm and changes nothing."""

    def forward(self, x: Tensor, train: bool) -> Tensor:
        return x


class Block(nn.Module):
    """Inverted residual block with pre-activation BatchNorm (paper: Inverted Residual Backbone).

    It expands fourfold, then contracts. The second ReLU comes before the residual sum.
    """

    def __init__(
        self, members: int, width: int, *, residual: bool, batch_norm: bool, dtype: torch.dtype, sync: Sync = ALONE
    ):
        super().__init__()
        self.expand = Linear(members, width, 4 * width, dtype=dtype)
        self.expand_norm = BatchNorm(members, 4 * width, sync=sync) if batch_norm else NoNorm()
        self.contract = Linear(members, 4 * width, width, dtype=dtype)
        self.contract_norm = BatchNorm(members, width, sync=sync) if batch_norm else NoNorm()
        self.residual = residual

    def forward(self, x: Tensor, train: bool) -> Tensor:
        h = torch.relu(self.expand_norm(self.expand(x, train), train))  # (members, batch, 4 width)
        h = torch.relu(self.contract_norm(self.contract(h, train), train))  # (members, batch, width)
        return h + x if self.residual else h


class Backbone(nn.Module):
    """Embedding, blocks, RMSNorm. The first BatchNorm sees raw inputs: it is the observation normaliser."""

    def __init__(
        self,
        members: int,
        inputs: int,
        width: int,
        *,
        blocks: int = 2,
        residual: bool = True,
        batch_norm: bool = True,
        rms_norm: bool = True,
        input_momentum: float = MOMENTUM,
        dtype: torch.dtype = torch.float32,
        sync: Sync = ALONE,
    ):
        super().__init__()
        self.input_norm = BatchNorm(members, inputs, input_momentum, sync) if batch_norm else NoNorm()
        self.embed = Linear(members, inputs, width, dtype=dtype)
        self.blocks = nn.ModuleList(
            Block(members, width, residual=residual, batch_norm=batch_norm, dtype=dtype, sync=sync)
            for _ in range(blocks)
        )
        self.output_norm = RMSNorm(members, width) if rms_norm else nn.Identity()
        self.members = members

    def forward(self, x: Tensor, train: bool, rows: slice = ALL_ROWS) -> Tensor:
        """x: (batch, inputs), shared by all members -> (members, rows, width). `rows` are the rows in use."""
        h = self.embed(self.input_norm(x.expand(self.members, *x.shape), train), train)  # (members, batch, width)
        for block in self.blocks:
            h = block(h, train)
        return self.output_norm(h[:, rows])


class Actor(nn.Module):
    """The policy: mean and log standard deviation of a Gaussian that tanh squashes into [-1, 1]."""

    def __init__(self, obs_dim: int, action_dim: int, width: int, *, dtype: torch.dtype = torch.float32, **backbone):
        super().__init__()
        self.backbone = Backbone(1, obs_dim, width, dtype=dtype, **backbone)
        self.mean = Linear(1, width, action_dim, bias=True, dtype=dtype)
        self.log_std = Linear(1, width, action_dim, bias=True, dtype=dtype)

    def forward(self, obs: Tensor, train: bool, rows: slice = ALL_ROWS) -> tuple[Tensor, Tensor]:
        """obs: (batch, features) -> mean and log_std, each (rows, action_dim)."""
        h = self.backbone(obs, train, rows)  # (1, rows, width)
        log_std = -10.0 + 6.0 * (1.0 + torch.tanh(self.log_std(h, train)[0]))  # in [-10, 2]
        return self.mean(h, train)[0], log_std


class Critic(nn.Module):
    """An ensemble of value networks on (features, action) rows. The value head (losses.py) reads their outputs."""

    def __init__(
        self, members: int, input_dim: int, width: int, outputs: int, *, dtype: torch.dtype = torch.float32, **backbone
    ):
        super().__init__()
        self.backbone = Backbone(members, input_dim, width, dtype=dtype, **backbone)
        self.head = Linear(members, width, outputs, bias=True, dtype=dtype)

    def forward(self, x: Tensor, train: bool, rows: slice = ALL_ROWS) -> Tensor:
        """x: (batch, features + action_dim) -> (members, rows, outputs)."""
        return self.head(self.backbone(x, train, rows), train)


class FeatureSource(Protocol):
    """The part of an encoder that shapes the networks behind it (encoders/state.py)."""

    @property
    def widths(self) -> tuple[int, ...]: ...

    @property
    def momentum(self) -> float: ...


def make_actor(
    config: AgentConfig, encoder: FeatureSource, action_dim: int, dtype: torch.dtype, sync: Sync = ALONE
) -> Actor:
    """The actor that `config` describes. Training and saved policies both build it here."""
    return Actor(encoder.widths[0], action_dim, config.actor_width, **_backbone(config, encoder, dtype, sync))


def make_critic(
    config: AgentConfig,
    encoder: FeatureSource,
    action_dim: int,
    outputs: int,
    dtype: torch.dtype,
    sync: Sync = ALONE,
) -> Critic:
    """The critic ensemble that `config` describes; `outputs` comes from the value head."""
    inputs = encoder.widths[1] + action_dim
    return Critic(config.critics, inputs, config.critic_width, outputs, **_backbone(config, encoder, dtype, sync))


def _backbone(config: AgentConfig, encoder: FeatureSource, dtype: torch.dtype, sync: Sync) -> dict[str, Any]:
    """The settings that shape both backbones. A new network switch is added here and in the schema."""
    return dict(
        blocks=config.blocks,
        residual=config.residual,
        batch_norm=config.batch_norm,
        rms_norm=config.rms_norm,
        input_momentum=encoder.momentum,
        dtype=dtype,
        sync=sync,
    )


@torch.no_grad()
def project_weights(network: nn.Module) -> None:
    """Project every weight back onto its sphere (paper: Weight Normalization)."""
    for module in network.modules():
        if isinstance(module, Linear | BatchNorm | RMSNorm):
            for parameter, value in module.projected().items():
                parameter.copy_(value)


def no_projection(network: nn.Module) -> None:
    """Ablation: weights stay as the optimizer left them."""


class Network(Protocol):
    """The signature that Actor and Critic share."""

    def __call__(self, x: Tensor, train: bool, rows: slice = ALL_ROWS): ...


class Half(enum.Enum):
    """The half of a joint batch [current; next] whose outputs are used."""

    CURRENT = "current"
    NEXT = "next"


def cross_batch_forward(network: Network, current_rows: Tensor, next_rows: Tensor, *, half: Half):
    """One training pass over 2 x batch rows, [current; next], which then share their BatchNorm statistics.

    The heads only see the half in use (paper: Cross-Batch Value Prediction).
    """
    size = current_rows.shape[0]
    rows = slice(0, size) if half is Half.CURRENT else slice(size, 2 * size)
    return network(torch.cat([current_rows, next_rows]), True, rows)


def separate_forward(network: Network, current_rows: Tensor, next_rows: Tensor, *, half: Half):
    """Ablation: a training pass over one half alone, normalised by its own statistics."""
    return network(current_rows if half is Half.CURRENT else next_rows, True)
