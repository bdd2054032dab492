"""The data of the page while runs go on: read again only where a file has changed."""

from __future__ import annotations

import functools
import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from flashsac.errors import FlashSACError
from flashsac.experiments.comparison import Comparison, compare, curves_of
from flashsac.experiments.page.data import page_data
from flashsac.experiments.page.kept import Kept, json_text, state_of
from flashsac.experiments.published import PublishedCurves
from flashsac.experiments.recorded import RecordedRun, read_run, run_directories
from flashsac.experiments.scores import Summary, summary
from flashsac.runs import layout
from flashsac.runs.seal import MALFORMED

REST = 100.0
"""The pause after a reading, as a multiple of its processor time: watching takes a hundredth of one core at most."""
FIRST_REST = 10.0
"""Seconds of the longest pause after the first reading. It reads everything; the next ones only what has changed."""


class Content(NamedTuple):
    """The page's data as JSON, with a tag by which a browser sees that it has not changed."""

    body: bytes
    tag: str


class LiveData:
    """The page's data about the runs below some directories, by name as in `flashsac report`.

    Threads may share it. Nothing is written, no lock is taken, and what cannot be read is named in the notes."""

    def __init__(self, groups: dict[str, list[Path]], published: Path | None = None):
        self._groups = groups
        self._published = PublishedCurves(published) if published else None
        self._lock = threading.Lock()
        self._kept = Kept()
        self._content: Content | None = None
        self._error: Exception | None = None
        self._readings, self._rest_until = 0, 0.0
        self.videos: dict[str, Path] = {}
        """Addresses of videos on the page, and their files: nothing else is ever served."""

    def current(self) -> Content:
        """Return the data, read anew unless that was done a moment ago. A reading that fails raises until the next."""
        with self._lock:
            if not self._readings or time.monotonic() >= self._rest_until:
                start = time.thread_time()
                try:
                    self._content, self._error = self._read(), None
                except Exception as error:
                    self._error = error
                rest = REST * (time.thread_time() - start)
                self._rest_until = time.monotonic() + (rest if self._readings else min(FIRST_REST, rest))
                self._readings += 1
            if self._error is not None or self._content is None:
                raise self._error or AssertionError
            return self._content

    def _read(self) -> Content:
        notes: list[str] = []
        self._kept.begin()
        groups: dict[str, list[RecordedRun]] = {}
        for name, paths in self._groups.items():
            for path in sorted({run for given in paths for run in run_directories(given)}):
                state = tuple(state_of(path / file) for file in (layout.CONFIG, layout.METRICS))
                read = self._kept.get(("run", path, state), functools.partial(_read_or_say, path))
                if isinstance(read, str):
                    notes.append(read)
                else:
                    groups.setdefault(name, []).append(read)
        comparison = compare(groups, notes.append)
        published = self._published.beside(comparison) if self._published else {}
        scores, said = self._scores(comparison)
        videos: dict[str, Path] = {}
        data = page_data(comparison, published, notes + said, _addresses(videos), scores, self._kept)
        del data["made"]  # what has not changed shall look the same
        self.videos = videos
        body = json_text(data).encode()
        return Content(body, hashlib.sha256(body).hexdigest()[:32])

    def _scores(self, comparison: Comparison) -> tuple[Summary | None, list[str]]:
        """Return the scores over tasks of the runs that were evaluated, and what is to be said about them."""
        curves = curves_of(comparison)
        evaluated = {
            task: {name: some for name, some in named.items() if some}
            for task, named in curves.items()
            if any(named.values())
        }
        key = tuple(
            (task, name, curve.seed, *(numbers.tobytes() for numbers in (curve.step, curve.seconds, curve.value)))
            for task, named in evaluated.items()
            for name, some in named.items()
            for curve in some
        )
        said: list[str] = []
        return self._kept.get(("scores", key), lambda: (summary(evaluated, say=said.append), said))


def _addresses(videos: dict[str, Path]) -> Callable[[str, str, int, Path], str]:
    """Return a function that gives videos addresses, and enters them into `videos`. A new recording gets a new one."""

    def address_of(task: str, name: str, seed: int, video: Path) -> str:
        digest = hashlib.sha256(f"{video.resolve()} {state_of(video)}".encode()).hexdigest()[:16]
        videos[f"videos/{digest}.mp4"] = video
        return f"videos/{digest}.mp4"

    return address_of


def _read_or_say(path: Path) -> RecordedRun | str:
    """Return a run, or why it cannot be read."""
    try:
        return read_run(path)
    except (OSError, FlashSACError, *MALFORMED) as error:
        return f"left out: {path} ({str(error)[:300]})"
