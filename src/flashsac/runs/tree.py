"""Trees of plain values, arrays and tensors as JSON plus tensors, which loading turns back without executing
anything."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from flashsac.system.files import sync


def flatten(tree: Any, tensors: dict[str, torch.Tensor], path: str = "") -> Any:
    """The tree with every tensor and array replaced by a reference, and the tensors put into `tensors`."""
    if isinstance(tree, dict):
        return {"dict": {str(key): flatten(value, tensors, f"{path}/{key}") for key, value in tree.items()}}
    if isinstance(tree, list | tuple):
        return {"list": [flatten(value, tensors, f"{path}/{i}") for i, value in enumerate(tree)]}
    if isinstance(tree, torch.Tensor | np.ndarray):
        tensor = tree.detach() if isinstance(tree, torch.Tensor) else torch.from_numpy(np.array(tree, order="C"))
        tensors[path] = tensor.cpu().clone().contiguous()
        return {"array" if isinstance(tree, np.ndarray) else "tensor": path}
    if isinstance(tree, np.generic):
        return {"value": tree.item()}
    if tree is None or isinstance(tree, bool | int | float | str):
        return {"value": tree}
    raise TypeError(f"cannot save a {type(tree).__name__} at {path}")


def unflatten(node: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Any:
    """The inverse of `flatten`. What `flatten` does not make raises ValueError, KeyError or RecursionError."""
    if not isinstance(node, dict) or len(node) != 1:
        raise ValueError(f"{node!r:.60} is no node of a tree")
    kind, value = next(iter(node.items()))
    if kind == "dict" and isinstance(value, dict):
        return {key: unflatten(child, tensors) for key, child in value.items()}
    if kind == "list" and isinstance(value, list):
        return [unflatten(child, tensors) for child in value]
    if kind == "value" and not isinstance(value, dict | list):
        return value
    if kind in ("tensor", "array") and isinstance(value, str):
        return tensors[value] if kind == "tensor" else tensors[value].numpy()
    raise ValueError(f"{kind!r:.60} is no kind of a node")


def save_tensors(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file and wait until it is on the disk. A full disk is an OSError, whatever the library calls
    it."""
    path.touch()
    mode = path.stat().st_mode  # by the umask; the library would give the owner alone the right to read
    try:
        save_file(tensors, path, metadata)
        path.chmod(mode)
        sync(path)
    except SafetensorError as error:
        if not path.stat().st_size:
            path.unlink()
        number = re.search(r"os error (\d+)", str(error))
        code = int(number[1]) if number else errno.EIO
        raise OSError(code, os.strerror(code) if number else str(error), str(path)) from error
