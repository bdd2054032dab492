"""Which robot a task's policy moves."""

from __future__ import annotations

from collections.abc import Sequence

from flashsac.errors import FlashSACError
from flashsac.robots.description import Robot, with_limits
from flashsac.robots.g1 import G1, G1_LIMITS
from flashsac.robots.playground import G1_JOYSTICK, g1_joystick

ROBOTS = {
    "mjlab:FlashSAC-G1-Flat": with_limits(G1, G1_LIMITS),
    "mjlab:FlashSAC-G1-Rough": with_limits(G1, G1_LIMITS),
    "playground:G1JoystickFlatTerrain": G1_JOYSTICK,
    "playground:G1JoystickRoughTerrain": G1_JOYSTICK,
}
"""By task. An entry here is all that makes a task's policies deployable."""


def robot_of(task: str, options: Sequence[str] = ()) -> Robot | None:
    """As a policy knows it that was trained with these --env.options."""
    robot = ROBOTS.get(task)
    if robot is None or not options:
        return robot
    if robot is not G1_JOYSTICK:
        raise FlashSACError(
            f"nobody knows what --env.options {' '.join(options)} mean for the robot of {task}: say so in robots/catalog.py."
        )
    return g1_joystick(options)
