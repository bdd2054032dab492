"""How much memory there is, and sizes as people write them."""

from __future__ import annotations

from pathlib import Path

import psutil

CGROUP = "/sys/fs/cgroup"
"""Where Linux says what a container may take."""


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


def size_text(count: float) -> str:
    """With units of thousands, as disks have them."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size / 10:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.0f} KB"
