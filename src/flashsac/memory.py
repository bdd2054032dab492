"""How much memory there is, how it is kept, and sizes as people write them."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import psutil

CGROUP = "/sys/fs/cgroup"
"""Where Linux says what a container may take."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""From glibc's malloc.h: how much may lie free at the end of the heap, and from which size on a block is mapped by itself."""


def available_memory() -> int:
    """What this process may still take: the machine's memory, or less in a container."""
    available = psutil.virtual_memory().available
    try:
        limit, used, details = (
            Path(CGROUP, f"memory.{name}").read_text().strip() for name in ("max", "current", "stat")
        )
        if limit == "max":
            return available
        # Files that were read or written count as used, but are dropped as soon as anybody wants the memory.
        cached = int(dict(line.split() for line in details.splitlines())["inactive_file"])
        return min(available, int(limit) - int(used) + cached)
    except (OSError, ValueError, KeyError):
        return available


def keep_freed_memory() -> None:
    """Let what the tensors of one update free serve those of the next. By itself glibc hands megabytes back to the system at once, and
    gets them again emptied, page by page: some hundredths to a fifth of an update's time (benchmarks/freed_memory.py)."""
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if sys.platform != "linux" or chosen:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 2**25)  # the most that it takes
        mallopt(_M_TRIM_THRESHOLD, 2**30)


def use_large_pages() -> None:
    """For tensors of two megabytes and more. torch asks for this variable when it makes its first tensor."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def size_text(count: float) -> str:
    """With units of thousands, as disks have them."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size / 10:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.0f} KB"
