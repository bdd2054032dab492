"""How observations and actions look in a mirror that exchanges left and right, built from the names of joints and feet.

The mirror is the plane through the robot's middle: y turns round, x and z stay. Velocities and forces are reflected
with it. Rotations (angular velocities, joints that roll or yaw) change sign in exactly those directions where
velocities do not.
"""

from __future__ import annotations

import re
from typing import Literal

from flashsac.types import Mirror

Kind = Literal["polar", "axial", "command", "joints", "feet", "feet_polar", "grid", "scalar"]
"""Kinds of numbers in an observation:

- polar: a velocity, force or direction
- axial: an angular velocity
- command: forward, sideways, turning
- joints: one number a joint
- feet: one number a foot
- feet_polar: one polar vector a foot
- grid: lines from right to left
- scalar: the same on both sides
"""

_SIDES = (("left", "right"), ("Left", "Right"), ("FL", "FR"), ("RL", "RR"))
OTHER_SIDE = {a: b for pair in _SIDES for a, b in (pair, reversed(pair))}
SIDEWAYS = re.compile(r"roll|yaw|^[FR][LR]_hip|^waist$", re.IGNORECASE)
"""Joints whose axis lies in the mirror's plane, so that they turn the other way in it: a quadruped's hips roll, a plain
waist yaws."""

POLAR, AXIAL, COMMAND = (1.0, -1.0, 1.0), (-1.0, 1.0, -1.0), (1.0, -1.0, -1.0)


def mirror(
    layout: tuple[Kind, ...], joints: tuple[str, ...], feet: tuple[str, ...], grid: tuple[int, int] = (0, 0)
) -> Mirror:
    """The mirror of a vector that consists of these pieces; `grid` is the number of its lines and their length."""
    lines, length = grid
    pieces: dict[str, Mirror] = {
        "polar": Mirror((0, 1, 2), POLAR),
        "axial": Mirror((0, 1, 2), AXIAL),
        "command": Mirror((0, 1, 2), COMMAND),
        "joints": _exchanged(joints),
        "feet": _exchanged(feet),
        "feet_polar": _vectors(_exchanged(feet).source),
        "grid": Mirror(
            tuple((lines - 1 - line) * length + point for line in range(lines) for point in range(length)),
            (1.0,) * (lines * length),
        ),
        "scalar": Mirror((0,), (1.0,)),
    }
    return joined([pieces[kind] for kind in layout])


def joined(parts: list[Mirror]) -> Mirror:
    """The mirror of several vectors, one after the other."""
    source: list[int] = []
    for part in parts:
        source += [len(source) + index for index in part.source]
    return Mirror(tuple(source), tuple(sign for part in parts for sign in part.sign))


def _exchanged(names: tuple[str, ...]) -> Mirror:
    partners = [names.index(_other(name)) for name in names]
    return Mirror(tuple(partners), tuple(-1.0 if SIDEWAYS.search(name) else 1.0 for name in names))


def _other(name: str) -> str:
    """left_knee_joint for right_knee_joint; what belongs to no side is its own partner."""
    return re.sub(r"left|right|Left|Right|\b[FR][LR](?=_|\b)", lambda found: OTHER_SIDE[found.group()], name)


def _vectors(partners: tuple[int, ...]) -> Mirror:
    return Mirror(tuple(3 * foot + axis for foot in partners for axis in range(3)), POLAR * len(partners))
