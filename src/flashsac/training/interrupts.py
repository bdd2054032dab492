"""Ctrl-C, SIGTERM and a terminal that is closed, while training."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def graceful_stop(stop: Callable[[], None]) -> Iterator[None]:
    """The first signal calls `stop`, which ends the run in order. Ctrl-C after it ends the run at once.

    SIGTERM may come twice: a service manager sends it to every process, and so does the parent of this one. A closing
    terminal sends SIGHUP by the shell and by the kernel. Neither means that no checkpoint shall be saved."""
    asked = False
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    numbers = [signal.SIGINT, signal.SIGTERM]
    if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:  # nohup wants it ignored
        numbers.append(hangup)

    def handle(number: int, _frame: Any) -> None:
        nonlocal asked
        if asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not asked:
            asked = True
            stop()

    try:
        before = {number: signal.signal(number, handle) for number in numbers}
    except ValueError:  # not in the main thread: the caller's signals are not ours
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
