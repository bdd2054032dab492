"""Child processes: a fresh Python interpreter, its last words, and its end."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
from typing import Any


class PythonChild:
    """A fresh interpreter with these arguments. A temporary file takes its stderr, so that no pipe fills up.

    `options` are those of subprocess.Popen. As a context manager it ends the child, whatever happens.
    """

    def __init__(self, *arguments: str, **options: Any):
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (`close` closes it)
        self._timer: threading.Timer | None = None
        self.timed_out = False
        self.process: subprocess.Popen[Any] = subprocess.Popen(
            [sys.executable, *arguments], stderr=self._stderr, **options
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
