"""The remote of a Unitree robot, 40 bytes of each of its messages: the keys that stop, and the sticks as a source of commands."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence

import numpy as np

from flashsac.deploy.commands import Command
from flashsac.robots.description import Range

L1, SELECT, L2, A, B = 1 << 1, 1 << 3, 1 << 5, 1 << 8, 1 << 9
"""Keys, as bits of the second two bytes."""
STOPS = (SELECT, L2 | B, L1 | A)
"""The first is ours; with the others a G1's own controllers damp, so that hands may know them."""
MIDDLE = 0.05
"""Less of a stick's way than this is none: nobody holds it quite still."""


def stop_pressed(remote: Sequence[int]) -> bool:
    keys = _keys(remote)
    return any(keys & stop == stop for stop in STOPS)


class Sticks:
    """The left stick goes forwards and sideways, the right one turns; all the way is as fast as the policy was trained. A begins.

    The robot tells what the remote said: `hear`. When that is nothing, its last word grows old."""

    needs_real_time = True
    begins_when = "A is pressed on the remote, its sticks untouched"

    def __init__(self, ranges: Sequence[Range]):
        self._slowest, self._fastest = np.array(ranges).T
        self._newest: tuple[np.ndarray, float] | None = None
        self._released = self._begun = False

    def listen(self) -> None:
        """Forget what was pressed before the robot was ready, and wait for a key that is still held to be let go."""
        self._released = self._begun = False

    def hear(self, remote: Sequence[int]) -> None:
        lx, rx, _, _, ly = struct.unpack_from("<5f", bytes(remote), 4)
        pushed = np.array([ly, -lx, -rx])  # sticks point to the right, our axes to the left
        if not any(remote) or not np.isfinite(pushed).all():  # zeros alone are what a robot tells without a remote
            return
        pushed = np.where(np.abs(pushed) < MIDDLE, 0.0, pushed)
        self._newest = pushed.clip(0, 1) * self._fastest - pushed.clip(-1, 0) * self._slowest, time.monotonic()
        keys = _keys(remote)
        if (
            keys == A and self._released and not pushed.any()
        ):  # A alone: with others it means something else to the robot
            self._begun = True
        self._released = self._released or not keys & A

    def read(self, seconds: float) -> Command | None:
        newest = self._newest
        return Command(newest[0], time.monotonic() - newest[1]) if newest and self._begun else None

    def close(self) -> None:
        pass


def _keys(remote: Sequence[int]) -> int:
    return remote[2] | remote[3] << 8
