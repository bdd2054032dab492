"""The data of the page while runs go on: read again only where a file has changed."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError
from flashsac.experiments.comparison import Published, compare
from flashsac.experiments.curves import read_published
from flashsac.experiments.page.data import data_of_task, page_data
from flashsac.experiments.page.figures import Lines
from flashsac.experiments.page.write import json_text
from flashsac.experiments.recorded import RecordedRun, read_run, run_directories
from flashsac.runs import layout
from flashsac.runs.seal import MALFORMED

REST = 100.0
"""The pause after a reading, as a multiple of what it took: watching takes a hundredth of one core at most."""
LONGEST_REST = 60.0
"""Seconds of the longest pause. The first reading of many runs takes long, the next ones do not."""

State = tuple[tuple[int, int, int], ...]
"""Inode, size and time of the last change of each file that is read."""


class LiveData:
    """The page's data about the runs below some directories, by name as in `flashsac report`.

    Threads may share it. Nothing is written, no lock is taken, and what cannot be read is named in the notes."""

    def __init__(self, groups: dict[str, list[Path]], published: Path | None = None):
        self._groups, self._published = groups, published
        self._lock = threading.Lock()
        self._runs: dict[Path, tuple[State, RecordedRun | str]] = {}
        self._tasks: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}
        self._published_of: Published = {}
        self._content, self._rest_until = b"", 0.0
        self.videos: dict[str, Path] = {}
        """Addresses of videos on the page, and their files: nothing else is ever served."""

    def current(self) -> bytes:
        """Return the data as JSON, read anew unless that was done a moment ago."""
        with self._lock:
            if not self._content or time.monotonic() >= self._rest_until:
                start = time.monotonic()
                self._content = self._read()
                end = time.monotonic()
                self._rest_until = end + min(LONGEST_REST, REST * (end - start))
            return self._content

    def _read(self) -> bytes:
        notes: list[str] = []
        known, self._runs = self._runs, {}
        groups: dict[str, list[RecordedRun]] = {}
        for name, paths in self._groups.items():
            for path in sorted({run for given in paths for run in run_directories(given)}):
                state = _state(path)
                before = known.get(path)
                read = before[1] if before and before[0] == state else _read_or_say(path)
                self._runs[path] = state, read
                if isinstance(read, str):
                    notes.append(read)
                else:
                    groups.setdefault(name, []).append(read)
        comparison = compare(groups, notes.append)
        published = {task: self._read_published(task) for task in comparison} if self._published else {}
        videos: dict[str, Path] = {}
        data = page_data(comparison, published, notes, _addresses(videos), self._data_of_task)
        del data["made"]  # what has not changed shall look the same
        self._tasks = {task: kept for task, kept in self._tasks.items() if task in comparison}
        self.videos = videos
        return json_text(data).encode()

    def _read_published(self, task: str) -> dict[str, Any]:
        if task not in self._published_of:
            assert self._published is not None
            self._published_of[task] = read_published(self._published, task)
        return self._published_of[task]

    def _data_of_task(self, task: str, lines: Lines, published: Published) -> dict[str, Any]:
        key = tuple((name, tuple((run.path, self._runs[run.path][0]) for run in runs)) for name, runs in lines.items())
        before = self._tasks.get(task)
        if before is None or before[0] != key:
            self._tasks[task] = key, data_of_task(task, lines, published)
        return self._tasks[task][1]


def _addresses(videos: dict[str, Path]) -> Callable[[str, str, int, Path], str]:
    """Return a function that gives videos addresses, and enters them into `videos`. A new recording gets a new one."""

    def address_of(task: str, name: str, seed: int, video: Path) -> str:
        digest = hashlib.sha256(f"{video.resolve()} {_stat(video)}".encode()).hexdigest()[:16]
        videos[f"videos/{digest}.mp4"] = video
        return f"videos/{digest}.mp4"

    return address_of


def _read_or_say(path: Path) -> RecordedRun | str:
    """Return a run, or why it cannot be read."""
    try:
        return read_run(path)
    except (OSError, FlashSACError, *MALFORMED) as error:
        return f"left out: {path} ({str(error)[:300]})"


def _state(run: Path) -> State:
    return tuple(_stat(run / name) for name in (layout.CONFIG, layout.METRICS))


def _stat(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns
