"""The process of one trial of a sweep. It is no command: launchers start it with `python -m flashsac.cli.trial`.

Its first line of input is the trial. The input then stays open for as long as its launcher lives; when it ends, the run
saves a checkpoint and stops."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading

import filelock

from flashsac.cli.main import main as run_command
from flashsac.errors import FlashSACError
from flashsac.experiments.launchers.process import BUSY
from flashsac.experiments.trial import Trial, next_command

GLANCE = 5.0
"""Seconds to wait for the trial's lock: a driver that looks whether the trial is busy holds it for a moment."""


def main() -> int:
    """Run what is left of the trial; returns the exit code."""
    trial = Trial.from_json(sys.stdin.readline())
    threading.Thread(target=_end_with_launcher, daemon=True).start()
    try:
        with filelock.FileLock(trial.lock, timeout=GLANCE):
            arguments = next_command(trial)
            if arguments is None:
                print(f"{trial.path} is finished", flush=True)
                return 0
            print(f"$ flashsac {shlex.join(arguments)}", flush=True)
            return run_command(arguments)
    except filelock.Timeout:
        return BUSY
    except FlashSACError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _end_with_launcher() -> None:
    while os.read(0, 4096):  # not sys.stdin: its lock, held by a thread that waits, would abort the end of the process
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
