"""Signals while a robot moves: the first one stops it, and none cuts its damping short."""

from __future__ import annotations

import signal
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals that stop the robot. A lost connection to its terminal is SIGHUP."""


def stop_on_signals() -> None:
    """Let each of SIGNALS raise KeyboardInterrupt, once, from now on."""
    for name in SIGNALS:
        signal.signal(name, _interrupt)
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # Ctrl-Z: a suspended loop cannot catch a robot that falls


def interrupt_again() -> None:
    """Let signals interrupt again after the robot was damped, if `stop_on_signals` was in force."""
    for name in SIGNALS:
        if signal.getsignal(name) in (_interrupt, signal.SIG_IGN):
            signal.signal(name, signal.default_int_handler)


def _interrupt(*_: Any) -> None:
    for name in SIGNALS:
        signal.signal(name, signal.SIG_IGN)
    raise KeyboardInterrupt
