"""Which robot a task's policy moves."""

from __future__ import annotations

from flashsac.robot.description import Robot, with_limits
from flashsac.robot.g1 import G1
from flashsac.robot.g1_limits import G1_LIMITS
from flashsac.robot.playground import G1_JOYSTICK

ROBOTS = {
    "mjlab:FlashSAC-G1-Flat": with_limits(G1, G1_LIMITS),
    "mjlab:FlashSAC-G1-Rough": with_limits(G1, G1_LIMITS),
    "playground:G1JoystickFlatTerrain": G1_JOYSTICK,
    "playground:G1JoystickRoughTerrain": G1_JOYSTICK,
}
"""By task. An entry here is all that makes a task's policies deployable."""


def robot_of(task: str) -> Robot | None:
    return ROBOTS.get(task)
