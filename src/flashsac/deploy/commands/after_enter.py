"""Another source, heard only after Enter: a real robot must not begin by itself."""

from __future__ import annotations

import select
import sys

from flashsac.deploy.commands.base import Command, Commands
from flashsac.errors import FlashSACError


class AfterEnter(Commands):
    """A source that gives no command until the operator presses Enter while the robot stands, then those of
    `commands`."""

    needs_real_time = True
    begins_when = "Enter is pressed"

    def __init__(self, commands: Commands) -> None:
        if not sys.stdin.isatty():
            raise FlashSACError(
                "a real robot begins when Enter is pressed, and there is no terminal. From a program, send lines to --commands stdin "
                "or udp:PORT: it begins with the first."
            )
        self._commands, self._pressed = commands, False

    def listen(self) -> None:
        import termios

        self._pressed = False
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def read(self, seconds: float) -> Command | None:
        if not self._pressed and select.select([sys.stdin], [], [], 0.0)[0]:
            self._pressed = bool(sys.stdin.readline())
        return self._commands.read(seconds) if self._pressed else None

    def close(self) -> None:
        self._commands.close()
