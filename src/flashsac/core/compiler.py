"""Compiling the update, and choosing its precision by measurement."""

from __future__ import annotations

import shutil
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch


def compile_update(function: Callable) -> Callable:
    """One graph for the whole function, gradients and optimizer included."""
    import torch._dynamo

    torch._dynamo.config.trace_autograd_ops = True
    return torch.compile(function, fullgraph=True, dynamic=False)


def compiler_missing(device: torch.device) -> str | None:
    """Why the update cannot be compiled here, or None."""
    if device.type == "cpu" and not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        return "no C++ compiler was found, so updates run uncompiled, two to three times slower (apt-get install g++)"
    if device.type == "cpu" and not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "Python's headers are missing, so updates run uncompiled, two to three times slower (apt-get install python3-dev)"
    return None


def fastest_precision(device: torch.device) -> Literal["fp32", "bf16"]:
    """fp32 or bf16, whichever multiplies matrices faster here; some CPUs only emulate bf16."""

    def seconds(dtype: torch.dtype) -> float:
        size = 512 if device.type == "cpu" else 4096  # large enough that launching is not what is measured
        x, y = torch.ones(size, size, device=device, dtype=dtype), torch.ones(size, size, device=device, dtype=dtype)
        best = float("inf")
        for _ in range(8):
            start = time.perf_counter()
            result = (x @ y).sum().item()  # .item() waits for the device
            best = min(best, time.perf_counter() - start)
            assert result > 0
        return best

    return "bf16" if seconds(torch.bfloat16) < 0.8 * seconds(torch.float32) else "fp32"
