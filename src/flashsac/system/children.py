"""Child processes: a fresh Python interpreter, its last words, and its end.

No child looks for modules in the current directory: a `numpy.py` that lies there is not what anybody asked for.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

SAFE_PATH = "PYTHONSAFEPATH"
"""Python's own variable: like its option -P, it keeps the current directory out of `sys.path`."""


@contextlib.contextmanager
def children_on_safe_path() -> Iterator[None]:
    """Interpreters that others start meanwhile (multiprocessing, torch, glfw) leave the current directory out too."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE_PATH, None)
        else:
            os.environ[SAFE_PATH] = before


class PythonChild:
    """A fresh interpreter with these arguments. A temporary file takes its stderr, so that no pipe fills up.

    It runs with -P, not with -I: what it imports may be installed for this user only, or be found by PYTHONPATH.
    `options` are those of subprocess.Popen. As a context manager it ends the child, whatever happens.
    """

    def __init__(self, *arguments: str, **options: Any):
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (`close` closes it)
        self._timer: threading.Timer | None = None
        self.timed_out = False
        environment = (options.pop("env", None) or os.environ) | {SAFE_PATH: "1"}  # for what it starts in its turn
        self.process: subprocess.Popen[Any] = subprocess.Popen(
            [sys.executable, "-P", *arguments], stderr=self._stderr, env=environment, **options
        )

    def kill_after(self, seconds: float | None) -> None:
        """Kill the child if it still runs then; a new limit replaces the one before, None lifts it."""
        if self._timer is not None:
            self._timer.cancel()
        if seconds is None:
            return
        self._timer = threading.Timer(seconds, self._time_out)
        self._timer.daemon = True
        self._timer.start()

    def _time_out(self) -> None:
        self.timed_out = True
        self.process.kill()

    def wait(self) -> int:
        """Wait for the child's end; return its exit code."""
        code = self.process.wait()
        if self._timer is not None:
            self._timer.cancel()
        return code

    def last_line(self) -> str:
        """The last line of its stderr; empty if it said nothing."""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """End the child if it still runs, and close everything that led to it."""
        self.process.kill()
        self.wait()
        for stream in (self.process.stdin, self.process.stdout, self._stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def __enter__(self) -> PythonChild:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
