"""Which robot a task's policy moves."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from flashsac.errors import FlashSACError
from flashsac.robots.description import MAX_DAMPING, MAX_STIFFNESS, Joint, Limits, Robot, with_limits
from flashsac.robots.g1 import G1, G1_LIMITS
from flashsac.robots.playground import G1_JOYSTICK, g1_joystick

ROBOTS = {
    "mjlab:FlashSAC-G1-Flat": with_limits(G1, G1_LIMITS),
    "mjlab:FlashSAC-G1-Rough": with_limits(G1, G1_LIMITS),
    "playground:G1JoystickFlatTerrain": G1_JOYSTICK,
    "playground:G1JoystickRoughTerrain": G1_JOYSTICK,
}
"""The robot of each task. An entry here is all that makes a task's policies deployable."""


def robot_of(task: str, options: Sequence[str] = ()) -> Robot | None:
    """The robot as a policy knows it that was trained with these --env.options."""
    robot = ROBOTS.get(task)
    if robot is None or not options:
        return robot
    if robot is not G1_JOYSTICK:
        raise FlashSACError(
            f"nobody knows what --env.options {' '.join(options)} mean for the robot of {task}: say so in robots/catalog.py."
        )
    return g1_joystick(options)


GAIN_MARGIN = 2.0
"""A known motor is told no gains above those of our own descriptions, times this."""


def bounded(robot: Robot) -> Robot:
    """The robot with the smaller of its own limits and ours, if we know a robot of its name.

    Other joints than ours, and gains that are too high, are an error: a policy with cut gains is another one.
    """
    ours = known_joints(robot.name)
    if not ours:
        return robot
    if {joint.name for joint in robot.joints} != set(ours):
        raise FlashSACError(f"{robot.name} has {len(ours)} joints, and the file names others. Export the policy again.")
    for joint in robot.joints:
        stiffest, most_damped = highest_gains(robot.name, joint.name)
        for name, value, most in (("stiffness", joint.stiffness, stiffest), ("damping", joint.damping, most_damped)):
            if value > most:
                raise FlashSACError(
                    f"{joint.name} of {robot.name}: {name} must be at most {most:g}, not {value:g}. Export the policy again."
                )
    joints = (functools.reduce(_smaller_limits, ours[joint.name], joint) for joint in robot.joints)
    return dataclasses.replace(robot, joints=tuple(joints))


@functools.cache
def known_joints(robot: str) -> dict[str, list[Joint]]:
    """Every description of each joint, by the joint's name; empty for a robot that we do not know."""
    found: dict[str, list[Joint]] = {}
    for known in ROBOTS.values():
        for joint in known.joints if known.name == robot else ():
            found.setdefault(joint.name, []).append(joint)
    return found


def highest_gains(robot: str, joint: str) -> tuple[float, float]:
    """Highest stiffness, Nm/rad, and damping, Nms/rad, that the motor may be told."""
    ours = known_joints(robot).get(joint)
    if not ours:
        return MAX_STIFFNESS, MAX_DAMPING
    return GAIN_MARGIN * max(own.stiffness for own in ours), GAIN_MARGIN * max(own.damping for own in ours)


def _smaller_limits(joint: Joint, ours: Joint) -> Joint:
    if joint.limits is None or ours.limits is None:
        return joint
    limits, own = joint.limits, ours.limits
    lower, upper = max(limits.lower, own.lower), min(limits.upper, own.upper)
    smaller = Limits(lower, upper, min(limits.torque, own.torque), min(limits.speed, own.speed))
    return dataclasses.replace(joint, limits=smaller)
