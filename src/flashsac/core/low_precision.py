"""The matrix product of every layer, in a type of its own: float32, bfloat16 or float16."""

from __future__ import annotations

import math

import torch
from torch import Tensor

FLOAT16_MAX = 65504


class LowPrecisionMatmul(torch.autograd.Function):
    """x weight^T for every ensemble member, computed in `dtype`. Inputs and outputs keep their own type.

    Autograd's own gradient of the weight is transposed in memory, which slows every kernel of the optimizer. Ours is
    contiguous. float16 also needs its gradients scaled.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        """x: (members, batch, inputs), weight: (members, outputs, inputs) -> (members, batch, outputs)."""
        if dtype == torch.float16:
            # BatchNorm can turn a nearly constant feature into a huge value. Within this limit the product with a row
            # of unit norm fits into float16 too.
            limit = FLOAT16_MAX / math.sqrt(x.shape[-1])
            x = x.clamp(-limit, limit)
        low = x.to(dtype)
        low_weight = weight.to(dtype)
        ctx.save_for_backward(low, low_weight)
        return torch.bmm(low, low_weight.mT).to(x.dtype)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        """grad: (members, batch, outputs)."""
        low, low_weight = ctx.saved_tensors
        scale = None
        if low.dtype == torch.float16:
            # The gradient of a mean over thousands of rows underflows float16. Scale its largest entry up, as far as
            # sums over those rows still fit.
            scale = (grad.abs().amax() * low.shape[1] ** 0.5).clamp_min(1e-30)
            grad = grad / scale
        low_grad = grad.to(low.dtype)
        grad_x = torch.bmm(low_grad, low_weight).to(grad.dtype)  # (members, batch, inputs)
        # (members, outputs, inputs)
        grad_weight = torch.bmm(low_grad.mT, low).to(grad.dtype) if ctx.needs_input_grad[1] else None
        if scale is not None:
            grad_x = grad_x * scale
            grad_weight = grad_weight * scale if grad_weight is not None else None
        return grad_x, grad_weight, None
