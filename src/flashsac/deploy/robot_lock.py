"""One process at a time controls a robot: two would send orders in turn, and the robot would shake or fall."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from flashsac.errors import FlashSACError

FOLDER = Path("/tmp")
"""The same for every user of this machine, whatever TMPDIR says."""


@contextlib.contextmanager
def control_of(robot: str, network: str | None) -> Iterator[None]:
    """Hold the robot at this network interface; raises an error if another process of this machine does.

    The operating system ends the locks with the process, however that ends. Who names no interface may reach any robot,
    and so must be alone."""
    import fcntl

    with contextlib.ExitStack() as held:
        locks = [(robot, fcntl.LOCK_EX)]
        if network:
            locks = [(robot, fcntl.LOCK_SH), (f"{robot}-{network.replace(os.sep, '_')}", fcntl.LOCK_EX)]
        for name, how in locks:
            path = FOLDER / f"flashsac-{name}.lock"
            try:
                descriptor = _open(path)
                held.callback(os.close, descriptor)
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FlashSACError(
                    f"another process controls {robot}{f' at {network}' if network else ''} ({path} is locked; `fuser {path}` "
                    "names it). The robot was not touched: stop that process first, or listen only, with --dry-run."
                ) from None
            except OSError as error:
                raise FlashSACError(
                    f"{path}, which keeps two processes from controlling {robot}, cannot be used ({error.strerror}). "
                    "Remove that file if no process controls the robot."
                ) from None
        yield


def _open(path: Path) -> int:
    """Open without following a link and without waiting for a pipe; a lock needs no more than reading."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(path, flags)  # without O_CREAT: Linux refuses that for another user's file in /tmp
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o644)
        os.fchmod(descriptor, 0o644)  # whatever the umask: others must see that it is locked
        return descriptor
