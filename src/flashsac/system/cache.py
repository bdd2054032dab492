"""The directory that keeps compiled code for the next process. Loading code runs it, so nobody else may write there."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def users_cache(name: str) -> Path | None:
    """A folder in the user's cache directory, made if need be; None where there is no home, or nothing can be
    written."""
    with contextlib.suppress(OSError, RuntimeError):
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "flashsac", name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if os.access(folder, os.W_OK) else None
    return None


def why_not_ours(folder: Path) -> str | None:
    """The reason why what lies in a folder may be somebody else's, and how to change that; None if it cannot be."""
    if not hasattr(os, "getuid") or not folder.exists():
        return None
    state = folder.stat()
    if state.st_uid != os.getuid():
        return f"{folder} belongs to another user"
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to {folder} (chmod go-w ends that; delete what is in it first)"
    return None
