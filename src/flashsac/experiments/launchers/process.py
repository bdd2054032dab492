"""The process of one trial. Every launcher starts it, here or on another machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from flashsac.experiments.trial import Trial
from flashsac.system.children import SAFE_PATH

BUSY = 75
"""The exit code of a process that found its trial in the hands of another one."""
CANNOT_BEGIN = 2
"""The exit code of a command that would fail again: its arguments, its task, or something that is not installed."""
STOPPED = 130
"""The exit code of a run that was told to stop, and saved a checkpoint."""
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
POLL = 0.2
"""Seconds between looks at a process that is waited for."""
PATIENCE = 600.0
"""Seconds that a stopped process has to save its checkpoint."""


class TrialProcess:
    """A trial at work in a process of its own, with one thread.

    It has a session of its own, so that Ctrl-C in a terminal reaches the driver alone. A pipe tells it when whoever
    started it is gone, however that ended: then it saves a checkpoint and stops."""

    def __init__(self, trial: Trial, environment: dict[str, str] | None = None, folder: str | None = None):
        log = Path(trial.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "flashsac.cli.trial"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | ONE_THREAD | {SAFE_PATH: "1"} | (environment or {}),
                cwd=folder,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(trial.to_json().encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:  # it has ended already; its exit code says so
            pass

    def poll(self) -> int | None:
        """The exit code, or None while it works."""
        code = self._process.poll()
        if code is not None and self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        return code

    def stop(self) -> None:
        """Tell the run to save a checkpoint and stop. To say it again changes nothing."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()


def run_trial(trial: Trial, environment: dict[str, str] | None = None, folder: str | None = None) -> int:
    """Run what is left of a trial and return the exit code. An interruption stops the trial in order."""
    process = TrialProcess(trial, environment, folder)
    try:
        while (code := process.poll()) is None:
            time.sleep(POLL)
        return code
    except BaseException:
        process.stop()
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL)
        process.kill()
        raise
