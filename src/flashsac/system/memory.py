"""How much memory there is, how it is kept, and sizes as people write them."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

CGROUP, OWN_GROUPS = "/sys/fs/cgroup", "/proc/self/cgroup"
"""The files in which Linux says what a container may take, and in which container we are."""
_V2 = ("memory.max", "memory.current", "inactive_file")
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
"""Names of the limit, of what is used, and, in memory.stat, of files in the cache."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Options of glibc's malloc.h: how much may lie free at the end of the heap, and from which size a block is mapped by
itself."""


def available_memory() -> int:
    """What this process may still take: the machine's memory, or less in a container or a batch job."""
    import psutil  # not above: a robot that runs `flashsac deploy` need not have it

    return min([psutil.virtual_memory().available, *_left_in_groups()])


def _left_in_groups() -> list[int]:
    """What may still be taken in our control group and in each one around it, where there is a limit."""
    try:
        memberships = [line.split(":", 2) for line in Path(OWN_GROUPS).read_text().splitlines()]
    except OSError:
        return []
    left = []
    for _, controllers, path in memberships:
        if controllers and "memory" not in controllers.split(","):
            continue
        root, (limit, used, cached) = (Path(CGROUP, "memory"), _V1) if controllers else (Path(CGROUP), _V2)
        # A path that leads out of our name space shows nothing; what can be seen from inside lies at the root.
        parts = () if ".." in path else Path(path.lstrip("/")).parts
        for depth in range(len(parts) + 1):
            folder = root.joinpath(*parts[:depth])
            try:
                details = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                most, now = (int((folder / name).read_text()) for name in (limit, used))
                # Files that were read or written count as used, but are dropped as soon as anybody wants the memory.
                left.append(most - now + int(details[cached]))
            except (OSError, ValueError, KeyError):  # not there, or "max": no limit
                continue
    return left


def keep_freed_memory() -> None:
    """Let what the tensors of one update free serve those of the next.

    By itself glibc hands megabytes back to the system at once, and gets them again emptied, page by page. That takes
    some hundredths to a fifth of an update's time (benchmarks/freed_memory.py)."""
    chosen = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    if sys.platform != "linux" or chosen:
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 2**25)  # the most that it takes
        mallopt(_M_TRIM_THRESHOLD, 2**30)


def use_large_pages() -> None:
    """Use large pages for tensors of two megabytes and more. torch asks for this variable when it makes its first
    tensor."""
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def size_text(count: float) -> str:
    """A size with units of thousands, as disks have them."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size / 10:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.0f} KB"
