"""Commands from the keys of this terminal."""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np

from flashsac.deploy.commands.stream import Stream
from flashsac.errors import FlashSACError
from flashsac.robots.description import Range

HELP = "w s forwards and back, a d sideways, q e turn (or the arrows), 0.1 each; space: zero; x stops. The first of them begins."
STEP = 0.1
"""Change of the velocity per key press, m/s or rad/s."""
KEYS = {"w": (0, 1), "s": (0, -1), "a": (1, 1), "d": (1, -1), "q": (2, 1), "e": (2, -1)}
"""Axis and sign of each key."""
ARROWS = {"\x1b[a": "w", "\x1b[b": "s", "\x1b[c": "e", "\x1b[d": "q"}


class Keyboard(Stream):
    """Keys change the velocity step by step. The command stays fresh as long as the terminal is open."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        if not sys.stdin.isatty():
            raise FlashSACError(
                "--keyboard needs a terminal. From a program, send lines to --commands stdin or udp:PORT."
            )
        print(HELP)
        self._velocity, (self._slowest, self._fastest) = np.zeros(3), np.array(ranges).T
        self._begun, self._rest = False, ""
        super().__init__(sys.stdin.fileno())

    def _listen(self) -> None:
        with _single_keys(sys.stdin.fileno()):
            while not self._closed.is_set():
                if select.select([self._source], [], [], 0.05)[0]:
                    self._take_keys()
                else:
                    self._rest = ""  # the escape key alone: the next byte is a key of its own
                if self._ended:
                    return
                if self._begun:
                    self._newest = self._velocity.copy(), time.monotonic()

    def _take_keys(self) -> None:
        try:
            got = os.read(sys.stdin.fileno(), 64)
        except OSError:  # the terminal was closed
            got = b""
        # Lower case: Caps Lock must not hide the x.
        keys, self._rest = split_keys(self._rest + got.decode(errors="ignore").lower())
        if not got or "x" in keys:
            self._ended = "the key x" if got else "the terminal is gone"
            return
        for key in keys:
            self._press(ARROWS.get(key.replace("\x1bo", "\x1b["), key))

    def _press(self, key: str) -> None:
        if key == " ":
            self._velocity[:] = 0.0
        elif key in KEYS:
            axis, sign = KEYS[key]
            self._velocity[axis] += sign * STEP
            # Without the limit, a key held too long would have to be taken back press by press.
            self._velocity = np.clip(self._velocity, self._slowest, self._fastest)
        else:
            return
        self._begun = True


def split_keys(text: str) -> tuple[list[str], str]:
    """Single keys, and the rest that may be the beginning of an escape sequence. A whole escape sequence is one key."""
    rest = re.search(r"\x1b([\[o]\[?[\d;?<>=]*)?$", text)
    whole = text[: rest.start()] if rest else text
    return re.findall(r"\x1b[\[o]\[?[\d;?<>=]*[a-z~]|.", whole, re.DOTALL), rest[0] if rest else ""


@contextlib.contextmanager
def _single_keys(terminal: int) -> Iterator[None]:
    """The terminal passes on each key at once, without Enter."""
    import termios
    import tty

    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
