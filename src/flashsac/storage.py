"""Where the replay lives: memory, memory-mapped files, or the accelerator; and whether it fits."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import psutil
import torch

from flashsac.config import ReplayConfig
from flashsac.core.replay import Replay, layout, layout_bytes
from flashsac.errors import NotEnoughMemory
from flashsac.types import EnvSpec

_ADVICE = "Take a smaller --replay.capacity, or --replay.obs-dtype float16"


def make_replay(
    spec: EnvSpec,
    config: ReplayConfig,
    *,
    steps: int,
    discount: float,
    n_step: int,
    run_dir: Path,
    device: torch.device,
) -> tuple[Replay, str]:
    """The replay, and a line for the user that says what it takes."""
    capacity = min(config.capacity, steps + spec.num_envs)  # a short run needs no room for a long one
    dtype: torch.dtype = getattr(torch, config.obs_dtype)
    needed = layout_bytes(layout(spec, capacity, n_step, dtype))
    about = f"replay: {capacity:,} transitions, {_size(needed)}"
    if config.storage == "disk":
        free = shutil.disk_usage(run_dir).free
        if needed > 0.95 * free:
            raise NotEnoughMemory(f"{about} on disk, but only {_size(free)} are free in {run_dir}. {_ADVICE}.")
        folder = run_dir / "replay-ring"
        folder.mkdir(exist_ok=True)
        allocate = lambda name, shape, kind: _memory_map(folder / name, shape, kind)
        about += f" on disk in {folder}"
    else:
        where = device if config.storage == "device" else spec.device
        free = torch.cuda.mem_get_info(where)[0] if where.type == "cuda" else psutil.virtual_memory().available
        if needed > 0.9 * free:
            raise NotEnoughMemory(
                f"{about}, but only {_size(free)} of memory are available. {_ADVICE} (half the size), "
                "or --replay.storage disk (memory-mapped files)."
            )
        allocate = lambda _name, shape, kind: torch.zeros(shape, dtype=kind, device=where)
        about += f" in {'memory' if where.type == 'cpu' else where}"
    return Replay(spec, capacity, discount=discount, n_step=n_step, obs_dtype=dtype, allocate=allocate), about


def _memory_map(path: Path, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    # NumPy has no bfloat16: map bytes and let torch look at them as the type it wants.
    size = torch.Size(shape).numel() * dtype.itemsize
    return torch.from_numpy(np.memmap(path, np.uint8, "w+", shape=(size,))).view(dtype).view(shape)


def _size(count: float) -> str:
    return f"{count / 2**30:.2f} GB" if count >= 2**30 / 10 else f"{count / 2**20:.1f} MB"
