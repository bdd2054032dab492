"""Compiling what runs in the loop, and choosing its precision by measurement."""

from __future__ import annotations

import contextlib
import os
import shutil
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

import torch

from flashsac.config import Precision

Compiler = Callable[[Callable], Callable]

DTYPES: dict[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def compiler_for(device: torch.device) -> Compiler:
    """Makes one graph of a whole function, gradients and optimizer included; on CUDA it is replayed as a CUDA graph."""
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        # Kept where reboots do not reach: compiling takes a minute, loading what was compiled before takes seconds.
        with contextlib.suppress(OSError, RuntimeError):  # no home, or not ours to write to: torch's own place will do
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "flashsac", "compiled")
            cache.mkdir(parents=True, exist_ok=True)
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    import torch._dynamo  # takes the variable as it stands now

    torch._dynamo.config.trace_autograd_ops = True
    torch._dynamo.config.recompile_limit = 64  # agents of several sizes in one process, each with its own graph
    if device.type != "cuda":
        return lambda function: torch.compile(function, fullgraph=True, dynamic=False)
    return _cuda_graph


def _cuda_graph(function: Callable) -> Callable:
    """Not run on a GPU yet."""
    graphed = torch.compile(function, fullgraph=True, dynamic=False, mode="reduce-overhead")

    def call(*args):
        torch.compiler.cudagraph_mark_step_begin()
        # The next replay overwrites what this one returns, and metrics are read much later.
        return torch.utils._pytree.tree_map(torch.clone, graphed(*args))

    return call


def compiler_missing(device: torch.device) -> str | None:
    """Why nothing can be compiled here, or None."""
    if device.type == "cpu" and not any(shutil.which(name) for name in ("g++", "clang++", "c++")):
        return "no C++ compiler was found, so updates run uncompiled, two to three times slower (apt-get install g++)"
    if device.type == "cpu" and not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "Python's headers are missing, so updates run uncompiled, two to three times slower (apt-get install python3-dev)"
    return None


def fastest_precision(device: torch.device) -> Precision:
    """bf16, or where that is missing fp16, if it multiplies matrices clearly faster than fp32; some CPUs only emulate them."""
    limit = 0.8 * product_seconds(device, torch.float32)
    if product_seconds(device, torch.bfloat16, limit) < limit:
        return "bf16"
    return "fp16" if product_seconds(device, torch.float16, limit) < limit else "fp32"


def product_seconds(device: torch.device, dtype: torch.dtype, limit: float = float("inf")) -> float:
    """The best of a few timings of one matrix product; fewer where it is hopelessly above `limit`."""
    size = 512 if device.type == "cpu" else 4096  # large enough that launching is not what is measured
    x, y = torch.ones(size, size, device=device, dtype=dtype), torch.ones(size, size, device=device, dtype=dtype)
    best = float("inf")
    for attempt in range(8):
        if attempt >= 2 and best > 3 * limit:
            break
        start = time.perf_counter()
        (x @ y)[0, 0].item()  # .item() waits for the device
        best = min(best, time.perf_counter() - start)
    return best
