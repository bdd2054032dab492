"""What trainer and workers exchange every step: arrays in shared memory, so that nothing is pickled."""

from __future__ import annotations

from multiprocessing.shared_memory import SharedMemory

import numpy as np
import torch
from torch import Tensor

from flashsac.types import EnvSpec


class SharedRows:
    """Named arrays in one block of shared memory, a row for each environment. Without a name, a new block is made."""

    def __init__(self, spec: EnvSpec, name: str | None = None):
        n = spec.num_envs
        shapes: dict[str, tuple[tuple[int, ...], type]] = {"action": ((n, spec.action_dim), np.float32)}
        shapes["reward"] = ((n,), np.float32)
        shapes |= dict.fromkeys(("terminated", "truncated", "valid"), ((n,), np.bool_))
        for group, (shape, dtype) in spec.groups.items():
            stored = np.uint8 if dtype == torch.uint8 else np.float32
            shapes |= dict.fromkeys((f"obs/{group}", f"final_obs/{group}"), ((n, *shape), stored))
        shapes = dict(
            sorted(shapes.items(), key=lambda item: -np.dtype(item[1][1]).itemsize)
        )  # bytes last: all stays aligned
        sizes = {key: int(np.prod(shape)) * np.dtype(kind).itemsize for key, (shape, kind) in shapes.items()}
        self._memory = SharedMemory(name, create=name is None, size=sum(sizes.values()))
        self._arrays, offset = {}, 0
        for key, (shape, kind) in shapes.items():
            self._arrays[key] = np.ndarray(shape, kind, self._memory.buf, offset)
            offset += sizes[key]

    @property
    def name(self) -> str:
        return self._memory.name

    def forget_name(self) -> None:
        """Once all are attached the name can go: nothing is left behind, however the processes end."""
        self._memory.unlink()

    def __getitem__(self, key: str) -> np.ndarray:
        return self._arrays[key]

    def copy(self, key: str) -> Tensor:
        return torch.from_numpy(self._arrays[key]).clone()

    def group(self, kind: str) -> dict[str, np.ndarray]:
        return {key.split("/")[1]: rows for key, rows in self._arrays.items() if key.startswith(f"{kind}/")}

    def __del__(self) -> None:
        if hasattr(self, "_arrays"):
            self._arrays.clear()  # views must go before the memory does
