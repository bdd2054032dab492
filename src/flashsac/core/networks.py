"""The networks: unit-norm layers with an ensemble axis, so that actor (one member) and critics share every line.

Activations have the shape (members, batch, features). Parameters carry the same leading axis.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from flashsac.config.schema import AgentConfig

ALL_ROWS = slice(None)
MOMENTUM = 0.01
"""Of BatchNorm's running statistics: the weight of the newest batch."""


def _unit_rows(weight: Tensor) -> Tensor:
    return weight / (weight.square().sum(-1, keepdim=True) + 1e-8).sqrt()


class _Product(torch.autograd.Function):
    """x weight^T for every member, in `dtype`; what goes in and comes out keeps its own type.

    Ours, because autograd's own gradient of the weight comes out transposed in memory, which slows every kernel of the
    optimizer, and because float16 needs its gradients scaled.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        if dtype == torch.float16:
            # float16 ends at 65504, and a nearly constant feature can come out of BatchNorm far beyond any other: with this
            # limit the product with a row of unit norm fits too.
            limit = 65504 / math.sqrt(x.shape[-1])
            x = x.clamp(-limit, limit)
        low = x.to(dtype)
        low_weight = weight.to(dtype)
        ctx.save_for_backward(low, low_weight)
        return torch.bmm(low, low_weight.mT).to(x.dtype)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        low, low_weight = ctx.saved_tensors
        scale = None
        if low.dtype == torch.float16:
            # A gradient of a mean over thousands of rows lies below float16's smallest numbers: bring its largest entry up to
            # where sums over those rows still fit.
            scale = (grad.abs().amax() * low.shape[1] ** 0.5).clamp_min(1e-30)
            grad = grad / scale
        low_grad = grad.to(low.dtype)
        grad_x = torch.bmm(low_grad, low_weight).to(grad.dtype)
        grad_weight = torch.bmm(low_grad.mT, low).to(grad.dtype) if ctx.needs_input_grad[1] else None
        if scale is not None:
            grad_x = grad_x * scale
            grad_weight = grad_weight * scale if grad_weight is not None else None
        return grad_x, grad_weight, None


class Linear(nn.Module):
    """Bias-free product with rows of unit norm; a head adds a free bias. Only the product itself runs in low precision."""

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
        # Only training passes may change weights: a gradient for the others would be computed for nobody.
        y = _Product.apply(x, self.weight if train else self.weight.detach(), self.dtype)
        return y if self.bias is None else y + self.bias

    def projected(self) -> dict[nn.Parameter, Tensor]:
        return {self.weight: _unit_rows(self.weight)}


class BatchNorm(nn.Module):
    """Normalises each member over its own batch. `train` is an argument, not a mode, because one update uses both."""

    eps = 1e-5
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, members: int, width: int, momentum: float = MOMENTUM):
        super().__init__()
        self.momentum = momentum
        self.scale = nn.Parameter(torch.ones(members, 1, width))
        self.bias = nn.Parameter(torch.zeros(members, 1, width))
        self.register_buffer("running_mean", torch.zeros(members, 1, width))
        self.register_buffer("running_var", torch.ones(members, 1, width))

    def forward(self, x: Tensor, train: bool) -> Tensor:
        if train:
            var, mean = torch.var_mean(x, dim=1, keepdim=True, correction=0)
            unbiased = var.detach() * (x.shape[1] / (x.shape[1] - 1))
            self.running_mean.lerp_(mean.detach(), self.momentum)
            self.running_var.lerp_(unbiased, self.momentum)
        else:
            mean, var = self.running_mean, self.running_var
        return (x - mean) * ((var + self.eps).rsqrt() * self.scale) + self.bias

    def projected(self) -> dict[nn.Parameter, Tensor]:
        """Scale and bias together have norm sqrt(width)."""
        squares = self.scale.square().sum(-1, keepdim=True) + self.bias.square().sum(-1, keepdim=True)
        factor = math.sqrt(self.scale.shape[-1]) / (squares + 1e-8).sqrt()
        return {self.scale: self.scale * factor, self.bias: self.bias * factor}


class RMSNorm(nn.Module):
    """Bounds the feature norm of every sample."""

    def __init__(self, members: int, width: int):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(members, 1, width))

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.scale

    def projected(self) -> dict[nn.Parameter, Tensor]:
        return {self.scale: _unit_rows(self.scale) * math.sqrt(self.scale.shape[-1])}


class NoNorm(nn.Module):
    """Ablation: stands where a BatchNorm would."""

    def forward(self, x: Tensor, train: bool) -> Tensor:
        return x


class Block(nn.Module):
    """Inverted residual: expand fourfold, contract, each with pre-activation BatchNorm; the second ReLU precedes the sum."""

    def __init__(self, members: int, width: int, *, residual: bool, batch_norm: bool, dtype: torch.dtype):
        super().__init__()
        self.expand = Linear(members, width, 4 * width, dtype=dtype)
        self.expand_norm = BatchNorm(members, 4 * width) if batch_norm else NoNorm()
        self.contract = Linear(members, 4 * width, width, dtype=dtype)
        self.contract_norm = BatchNorm(members, width) if batch_norm else NoNorm()
        self.residual = residual

    def forward(self, x: Tensor, train: bool) -> Tensor:
        h = torch.relu(self.expand_norm(self.expand(x, train), train))
        h = torch.relu(self.contract_norm(self.contract(h, train), train))
        return h + x if self.residual else h


class Backbone(nn.Module):
    """Embedder, blocks, RMSNorm. The first BatchNorm sees raw inputs: it is the observation normaliser."""

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
    ):
        super().__init__()
        self.input_norm = BatchNorm(members, inputs, input_momentum) if batch_norm else NoNorm()
        self.embed = Linear(members, inputs, width, dtype=dtype)
        self.blocks = nn.ModuleList(
            Block(members, width, residual=residual, batch_norm=batch_norm, dtype=dtype) for _ in range(blocks)
        )
        self.output_norm = RMSNorm(members, width) if rms_norm else nn.Identity()
        self.members = members

    def forward(self, x: Tensor, train: bool, rows: slice = ALL_ROWS) -> Tensor:
        """x: (batch, inputs), shared by all members. `rows` are the ones that anybody will look at."""
        h = self.embed(self.input_norm(x.expand(self.members, *x.shape), train), train)
        for block in self.blocks:
            h = block(h, train)
        return self.output_norm(h[:, rows])


class Actor(nn.Module):
    """The actor: mean and log standard deviation of a Gaussian that tanh squashes into [-1, 1]."""

    def __init__(self, obs_dim: int, action_dim: int, width: int, *, dtype: torch.dtype = torch.float32, **backbone):
        super().__init__()
        self.backbone = Backbone(1, obs_dim, width, dtype=dtype, **backbone)
        self.mean = Linear(1, width, action_dim, bias=True, dtype=dtype)
        self.log_std = Linear(1, width, action_dim, bias=True, dtype=dtype)

    def forward(self, obs: Tensor, train: bool, rows: slice = ALL_ROWS) -> tuple[Tensor, Tensor]:
        h = self.backbone(obs, train, rows)
        log_std = -10.0 + 6.0 * (1.0 + torch.tanh(self.log_std(h, train)[0]))
        return self.mean(h, train)[0], log_std


class Critic(nn.Module):
    """An ensemble of value networks on (observation, action) rows; the value head (losses.py) reads their outputs."""

    def __init__(
        self, members: int, input_dim: int, width: int, outputs: int, *, dtype: torch.dtype = torch.float32, **backbone
    ):
        super().__init__()
        self.backbone = Backbone(members, input_dim, width, dtype=dtype, **backbone)
        self.head = Linear(members, width, outputs, bias=True, dtype=dtype)

    def forward(self, x: Tensor, train: bool, rows: slice = ALL_ROWS) -> Tensor:
        return self.head(self.backbone(x, train, rows), train)


class Network(Protocol):
    """What Actor and Critic share."""

    def __call__(self, x: Tensor, train: bool, rows: slice = ALL_ROWS): ...


class FeatureSource(Protocol):
    """The part of an encoder that decides the shape of the networks behind it."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Feature dimensions for the actor and for the critic."""
        ...

    @property
    def momentum(self) -> float:
        """BatchNorm momentum of the first layer, which normalises the features."""
        ...


def make_actor(config: AgentConfig, encoder: FeatureSource, action_dim: int, dtype: torch.dtype) -> Actor:
    """The actor that `config` describes. Training and saved policies both build it here."""
    return Actor(encoder.widths[0], action_dim, config.actor_width, **_backbone(config, encoder, dtype))


def make_critic(
    config: AgentConfig, encoder: FeatureSource, action_dim: int, outputs: int, dtype: torch.dtype
) -> Critic:
    """The critic ensemble that `config` describes; `outputs` comes from the value head."""
    inputs = encoder.widths[1] + action_dim
    return Critic(config.critics, inputs, config.critic_width, outputs, **_backbone(config, encoder, dtype))


def _backbone(config: AgentConfig, encoder: FeatureSource, dtype: torch.dtype) -> dict[str, Any]:
    """The settings that shape the backbone of actor and critic. A new network switch is added here and in the schema."""
    return dict(
        blocks=config.blocks,
        residual=config.residual,
        batch_norm=config.batch_norm,
        rms_norm=config.rms_norm,
        input_momentum=encoder.momentum,
        dtype=dtype,
    )


@torch.no_grad()
def project_weights(network: nn.Module) -> None:
    """Put every weight back on its sphere (paper: Weight Normalization)."""
    for module in network.modules():
        if isinstance(module, Linear | BatchNorm | RMSNorm):
            for parameter, value in module.projected().items():
                parameter.copy_(value)


def keep_weights(network: nn.Module) -> None:
    """Ablation: no projection."""


def cross_batch(network: Network, current: Tensor, following: Tensor, use: str):
    """One pass over [current; following], so that both share BatchNorm statistics; the head only on the half in use."""
    size = current.shape[0]
    rows = slice(0, size) if use == "current" else slice(size, 2 * size)
    return network(torch.cat([current, following]), True, rows)


def separate_batch(network: Network, current: Tensor, following: Tensor, use: str):
    """Ablation: each half is normalised by itself."""
    return network(current if use == "current" else following, True)
