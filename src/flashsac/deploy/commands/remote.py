"""The remote of a Unitree robot, 40 bytes in each message: keys that stop, and sticks as a source of commands."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence

import numpy as np

from flashsac.deploy.commands.base import Command, Commands
from flashsac.robots.description import Range

L1, SELECT, L2, A, B = 1 << 1, 1 << 3, 1 << 5, 1 << 8, 1 << 9
"""Keys, as bits of bytes 2 and 3."""
STOPS = (SELECT, L2 | B, L1 | A)
"""Keys that stop. The first is ours; the others also damp a G1 under its own controllers, so operators know them."""
DEAD_ZONE = 0.05
"""A deflection of a stick below this share counts as zero, because no hand holds a stick quite still."""


def stop_pressed(remote: Sequence[int]) -> bool:
    keys = _keys(remote)
    return any(keys & stop == stop for stop in STOPS)


class Sticks(Commands):
    """The left stick moves forwards and sideways, the right one turns; full deflection is the fastest trained command.

    The policy begins when A is pressed alone, with the sticks untouched. The robot passes on the remote's bytes with
    `hear_remote`; when it passes on none, the last command grows old."""

    needs_real_time = True
    begins_when = "A is pressed on the remote, its sticks untouched"

    def __init__(self, ranges: Sequence[Range]):
        self._slowest, self._fastest = np.array(ranges).T
        self._newest: tuple[np.ndarray, float] | None = None
        self._released = self._begun = False

    def listen(self) -> None:
        """Forget earlier presses of A. An A that is still held must be released first."""
        self._released = self._begun = False

    def hear_remote(self, remote: Sequence[int]) -> None:
        lx, rx, _, _, ly = struct.unpack_from("<5f", bytes(remote), 4)
        pushed = np.array([ly, -lx, -rx])  # the sticks' axes point right, the command's axes left
        if not any(remote) or not np.isfinite(pushed).all():  # without a remote, the robot reports zeros alone
            return
        pushed = np.where(np.abs(pushed) < DEAD_ZONE, 0.0, pushed)
        self._newest = pushed.clip(0, 1) * self._fastest - pushed.clip(-1, 0) * self._slowest, time.monotonic()
        keys = _keys(remote)
        # A alone: together with others it means something else to the robot.
        if keys == A and self._released and not pushed.any():
            self._begun = True
        self._released = self._released or not keys & A

    def read(self, seconds: float) -> Command | None:
        newest = self._newest
        return Command(newest[0], time.monotonic() - newest[1]) if newest and self._begun else None


def _keys(remote: Sequence[int]) -> int:
    return remote[2] | remote[3] << 8
