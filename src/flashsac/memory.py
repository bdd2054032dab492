"""How much memory there is, and sizes as people write them."""

from __future__ import annotations

from pathlib import Path

import psutil


def available_memory() -> int:
    """What this process may still take: the machine's memory, or less in a container."""
    available = psutil.virtual_memory().available
    try:
        limit, used = (Path("/sys/fs/cgroup", name).read_text().strip() for name in ("memory.max", "memory.current"))
        return min(available, int(limit) - int(used)) if limit != "max" else available
    except (OSError, ValueError):
        return available


def size_text(count: float) -> str:
    for unit, size in (("GB", 2**30), ("MB", 2**20)):
        if count >= size / 10:
            return f"{count / size:.1f} {unit}"
    return f"{count / 2**10:.0f} KB"
