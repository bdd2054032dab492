"""`flashsac` with every matrix product rounded as bf16 would: operands and results, forward and backward.

For CPUs without bf16 instructions, where PyTorch's own bf16 products take many times as long; what is learned is the
same.

python benchmarks/rounded_products.py train TASK ...
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from flashsac.cli.main import main
from flashsac.core import networks


def _round(x: Tensor) -> Tensor:
    return x.to(torch.bfloat16).to(x.dtype)


class RoundedProduct(torch.autograd.Function):
    """networks.LowPrecisionMatmul in bf16, computed in float32."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
        low, low_weight = _round(x), _round(weight)
        ctx.save_for_backward(low, low_weight)
        return _round(torch.bmm(low, low_weight.mT))

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        low, low_weight = ctx.saved_tensors
        low_grad = _round(grad)
        grad_weight = _round(torch.bmm(low_grad.mT, low)) if ctx.needs_input_grad[1] else None
        return _round(torch.bmm(low_grad, low_weight)), grad_weight, None


if __name__ == "__main__":
    networks.LowPrecisionMatmul = RoundedProduct  # type: ignore[misc]
    sys.exit(main())
