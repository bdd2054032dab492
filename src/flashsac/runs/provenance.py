"""The origin of a result: versions of everything that may change it, and the machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

from flashsac.sims.registry import distributions

VERSIONED = ("flashsac", "torch", "numpy")
"""Packages whose versions every run records, besides those that its simulator names."""


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """The versions of everything installed that may change a result."""
    found = {name: version(name) for name in (*VERSIONED, *distributions())}
    return {"python": platform.python_version()} | {name: number for name, number in found.items() if number}


def processor() -> str:
    """What torch's kernels go by: "AVX2", "AVX512 with bf16"."""
    import torch

    low = [
        name
        for name, there in torch.cpu.get_capabilities().items()
        if there and name in ("avx512_bf16", "amx_bf16", "bf16")
    ]
    return torch.backends.cpu.get_cpu_capability() + (" with bf16" if low else "")


def machine() -> dict[str, Any]:
    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "processor": processor(),
        "torch_threads": torch.get_num_threads(),
        "gpus": gpus,
    }
