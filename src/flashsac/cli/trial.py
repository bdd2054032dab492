"""The process of one trial of a sweep. It is no command: launchers start it with `python -m flashsac.cli.trial`.

Its first line of input is the trial. The input then stays open for as long as its launcher lives; when it ends, the run
saves a checkpoint and stops. SIGTERM means the same. Both may come, in any order and more than once."""

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
GONE = b"whoever started this trial is gone, so it saves a checkpoint and stops\n"


def main() -> int:
    """Run what is left of the trial; returns the exit code."""
    trial = Trial.from_json(sys.stdin.readline())
    _leave_to_the_launcher("SIGUSR1", "SIGUSR2")
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


def _leave_to_the_launcher(*names: str) -> None:
    """Ignore signals that announce the end of a SLURM job. Some clusters send them to every process of the job, and
    they would end this one. The launcher handles them, and stops the trial by SIGTERM."""
    for name in names:
        if hasattr(signal, name):  # Windows has none
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def _end_with_launcher() -> None:
    """Wait for the end of the input, and stop the run then. This uses neither sys.stdin nor sys.stdout: a lock that a
    thread holds would abort the end of the process."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    os.write(1, GONE)


if __name__ == "__main__":
    sys.exit(main())
