"""Commands of another process: a datagram of `number vx vy yaw`, the same bytes as lines of a pipe, and as the remote."""

from __future__ import annotations

import contextlib
import io

import numpy as np

from flashsac.deploy.commands.base import Command
from flashsac.deploy.commands.remote import Sticks, stop_pressed
from flashsac.deploy.commands.stream import HIGHEST_NUMBER, Numbered, parse
from flashsac.deploy.safety import Safety
from flashsac.robots.catalog import ROBOTS

ROBOT = ROBOTS["playground:G1JoystickFlatTerrain"]
SAFETY = Safety(ROBOT)


def seeds() -> list[bytes]:
    return [
        b"17 0.5 0 0.1",
        b"1700000000000000000, 0.5, -0.25, 1e-1\n",
        b"1 0 0 0\n2 0.1 0 0\n3 0.2 0 0\n",
        b"\x55\x51" + 38 * b"\x01",
    ]


def attack(data: bytes) -> bool:
    numbered = Numbered()
    numbered.take(b"5 0 0 0")
    slowest, fastest = np.array(ROBOT.command_range).T
    with contextlib.redirect_stdout(io.StringIO()):
        velocities = [parse(line) for line in data.split(b"\n")]
        velocities += [numbered.take(line) for line in data.split(b"\n")]
        assert numbered.take(b"5 0 0 0") is None, "old, whatever came between"
        assert numbered.take(b"%d 0 0 0" % (HIGHEST_NUMBER + 1)) is None
    sticks = Sticks(ROBOT.command_range)
    remote = list(data[:40].ljust(40, b"\0"))  # the SDK's message has 40 bytes, always
    stop_pressed(remote)
    sticks.hear_remote(remote)
    heard = sticks.read(0.0)
    for velocity in [*velocities, heard.velocity if heard else None]:
        if velocity is not None:
            assert velocity.shape == (3,)
            assert np.isfinite(velocity).all()
            told = SAFETY.command(Command(velocity))
            assert np.all((told >= slowest) & (told <= fastest))
    return any(velocity is not None for velocity in velocities)
