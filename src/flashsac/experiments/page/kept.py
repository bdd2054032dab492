"""What is kept from one reading of the runs to the next, so that only what has changed costs time."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
FileState = tuple[int, int, int]
"""Inode, size and time of the last change."""


class Kept:
    """Results by their keys. What one reading does not ask for is forgotten when the next one begins."""

    def __init__(self) -> None:
        self._before: dict[Hashable, Any] = {}
        self._now: dict[Hashable, Any] = {}

    def begin(self) -> None:
        """Begin a reading."""
        self._before, self._now = self._now, {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made for this key, or make it. A key names everything that the result depends on."""
        if key not in self._now:
            self._now[key] = self._before[key] if key in self._before else make()
        return self._now[key]


class Piece(dict[str, Any]):
    """A part of the page's data that never changes once it is made. Its JSON text is made once."""

    @functools.cached_property
    def text(self) -> str:
        return _text(dict(self))


def json_text(data: Any) -> str:
    """Return JSON that no HTML parser takes for a tag or a comment."""
    if isinstance(data, Piece):
        return data.text
    if isinstance(data, dict):
        return "{" + ",".join(f"{_text(str(name))}:{json_text(value)}" for name, value in data.items()) + "}"
    if isinstance(data, list) and data and isinstance(data[0], dict | list):
        return "[" + ",".join(map(json_text, data)) + "]"
    return _text(data)


def state_of(file: Path) -> FileState:
    """Return the state of a file, by which a change is noticed; zeros for a file that is not there."""
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


def _text(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
