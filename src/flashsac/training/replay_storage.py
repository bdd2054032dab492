"""The replay's place (memory, memory-mapped files, or the accelerator), and whether it fits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from flashsac.config.schema import ReplayConfig
from flashsac.core.replay import Replay, layout, layout_bytes
from flashsac.errors import NotEnoughMemory
from flashsac.runs.layout import RING
from flashsac.system.files import remove_tree
from flashsac.system.memory import available_memory, size_text
from flashsac.training.distributed import ranks_here
from flashsac.types import EnvSpec

_ADVICE = "Take a smaller --replay.capacity"


def make_replay(
    spec: EnvSpec,
    config: ReplayConfig,
    *,
    steps: int,
    discount: float,
    n_step: int,
    run_dir: Path,
    device: torch.device,
    say: Callable[[str], None],
) -> Replay:
    """Say what the replay will take, refuse what does not fit, and only then allocate."""
    capacity = min(config.capacity, steps + spec.num_envs)  # a short run needs no room for a long one
    dtype: torch.dtype = getattr(torch, config.obs_dtype)
    needed = layout_bytes(layout(spec, capacity, n_step, dtype))
    about = f"replay: {capacity:,} transitions, {size_text(needed)}"
    advice = _ADVICE if spec.pixels else f"{_ADVICE}, or --replay.obs-dtype float16 (observations at half their size)"
    where = {"device": device, "ram": torch.device("cpu")}.get(config.storage, spec.device)
    # The other ranks on this machine take as much.
    free = torch.cuda.mem_get_info(where)[0] if where.type == "cuda" else available_memory() / ranks_here()
    fits = needed <= 0.9 * free
    folder = run_dir / RING
    remove_ring(run_dir)  # of a process that was killed; a checkpoint's pieces fill the new one
    room = shutil.disk_usage(run_dir).free / ranks_here()
    saved = sum(file.stat().st_size for file in run_dir.glob("replay/*"))  # by the run that is resumed
    to_save = max(0, needed - saved)
    if config.storage == "disk" or (config.storage == "auto" and not fits):
        about += f" on disk in {folder}" + ("" if fits else f", as only {size_text(free)} of memory are free")
        if needed + to_save > 0.95 * room:
            raise NotEnoughMemory(
                f"{about}, and as much again for its checkpoints, but only {size_text(room)} are free there. {advice}."
            )
        folder.mkdir()
        allocate = lambda name, shape, kind: _memory_map(folder / name, shape, kind)
    else:
        if not fits:
            raise NotEnoughMemory(
                f"{about}, but only {size_text(free)} of memory are available. {advice}, or "
                "--replay.storage disk (memory-mapped files)."
            )
        allocate = lambda _name, shape, kind: torch.zeros(shape, dtype=kind, device=where)
        about += f" in {'memory' if where.type == 'cpu' else where}"
        if to_save > 0.95 * room:
            about += (
                f"\nwarning: its checkpoints take as much again on disk, where only {size_text(room)} are free: the run could not be "
                f"saved once it is full. Free some space. {advice}."
            )
    say(about)
    return Replay(spec, capacity, discount=discount, n_step=n_step, obs_dtype=dtype, allocate=allocate)


def remove_ring(run_dir: Path) -> None:
    """The files of a replay on disk, once nobody needs them: a checkpoint has pieces of its own."""
    remove_tree(run_dir / RING)


def _memory_map(path: Path, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    # NumPy has no bfloat16: map bytes and let torch look at them as the type it wants.
    size = torch.Size(shape).numel() * dtype.itemsize
    with path.open("wb") as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)  # a sparse file on a full disk would kill the process later
        except OSError as error:
            raise NotEnoughMemory(
                f"{size_text(size)} for the replay could not be reserved at {path} ({error.strerror}). {_ADVICE}."
            ) from error
    return torch.from_numpy(np.memmap(path, np.uint8, "r+", shape=(size,))).view(dtype).view(shape)
