"""A disk that is full or goes away: room that is kept for the policy, and what can still be saved."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flashsac.runs import layout
from flashsac.system.files import UNFINISHED, free_name, remove_tree, replacing
from flashsac.system.memory import size_text

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Reserve:
    """A file without content that keeps room on the disk. Releasing it makes room for something that matters more."""

    def __init__(self, run_dir: Path, size: int):
        self._path, self._size = run_dir / layout.RESERVE, size
        self.take()

    def take(self) -> None:
        """Reserve the room, if there is any; a disk that is full already is reported by whoever writes to it."""
        try:
            with self._path.open("wb") as file:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, self._size)
                else:
                    file.write(bytes(self._size))
        except OSError:
            self.release()

    def release(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    close = release


class FolderWatch:
    """Notices that a folder was deleted or moved, that its disk was unmounted, or that somebody emptied it."""

    def __init__(self, folder: Path, content: str):
        self._content = folder / content
        self._folder, self._descriptor = folder, -1
        with contextlib.suppress(OSError):  # Windows opens no folders
            self._descriptor = os.open(folder, os.O_RDONLY)  # held open, so that no other folder gets its number

    def gone(self) -> bool:
        """True if the path no longer leads to the folder it led to, or not to the file that must be in it."""
        try:
            here = os.stat(self._folder)
            same = self._descriptor < 0 or os.path.samestat(here, os.fstat(self._descriptor))
            return not (same and self._content.exists())
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:  # a disk with faults, or a network that is down: it may come back
            return False

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def rescue_policy(run_dir: Path, step: int, write_policy: Callable[[Path], None]) -> Path | None:
    """Save a policy outside its run directory: in the current directory, else in the system's temporary one."""
    for folder in (Path.cwd, lambda: Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):  # there may be no current directory any more
            path = free_name(folder() / f"{run_dir.name}-{layout.policy_alone(step)}")
            with replacing(path) as temporary:
                write_policy(temporary)
            return path
    return None


def remove_unfinished(run_dir: Path) -> None:
    """Remove what a training process that was killed left half-written. Only one process at a time writes these."""
    ours = [run_dir / layout.CHECKPOINTS / f"{UNFINISHED}*"]
    ours += [run_dir / folder / ".tmp*" for folder in (layout.CHECKPOINTS, layout.REPLAY)]  # safetensors names them so
    ours += [run_dir / f"{UNFINISHED}*-{name}" for name in (layout.CONFIG, layout.METRICS)]
    for pattern in ours:
        for path in pattern.parent.glob(pattern.name):
            remove_tree(path)


def free_bytes(folder: Path) -> int:
    """Room on the disk; 0 where that cannot be known."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def tensor_bytes(tree: Any) -> int:
    """The size of all tensors and arrays in a tree."""
    if isinstance(tree, torch.Tensor | np.ndarray):
        return tree.nbytes
    parts = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list | tuple) else ()
    return sum(map(tensor_bytes, parts))


def fault_text(error: OSError, needed: int, folder: Path) -> str:
    """What went wrong with a write, with the numbers that matter."""
    return f"{error.strerror or error}; it needs about {size_text(needed)}, {size_text(free_bytes(folder))} are free"


def advice(error: OSError) -> str:
    return "Free some space" if error.errno in _FULL else "Make the directory writable again"
