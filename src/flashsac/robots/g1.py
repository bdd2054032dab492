"""The Unitree G1 with 29 joints, as the paper trains it (tables "Joint Information" and "Observation Space")."""

from __future__ import annotations

import dataclasses
import math

from flashsac.robots.description import Joint, Limits, Range, Robot, Term

_MIDDLE = {
    "waist_yaw_joint": Limits(-2.618, 2.618, 88.0, 32.0),
    "waist_roll_joint": Limits(-0.52, 0.52, 50.0, 37.0),
    "waist_pitch_joint": Limits(-0.52, 0.52, 50.0, 37.0),
}
_LEFT = {
    "hip_pitch_joint": Limits(-2.5307, 2.8798, 88.0, 32.0),
    "hip_roll_joint": Limits(-0.5236, 2.9671, 139.0, 20.0),
    "hip_yaw_joint": Limits(-2.7576, 2.7576, 88.0, 32.0),
    "knee_joint": Limits(-0.087267, 2.8798, 139.0, 20.0),
    "ankle_pitch_joint": Limits(-0.87267, 0.5236, 50.0, 37.0),
    "ankle_roll_joint": Limits(-0.2618, 0.2618, 50.0, 37.0),
    "shoulder_pitch_joint": Limits(-3.0892, 2.6704, 25.0, 37.0),
    "shoulder_roll_joint": Limits(-1.5882, 2.2515, 25.0, 37.0),
    "shoulder_yaw_joint": Limits(-2.618, 2.618, 25.0, 37.0),
    "elbow_joint": Limits(-1.0472, 2.0944, 25.0, 37.0),
    "wrist_roll_joint": Limits(-1.97222, 1.97222, 25.0, 37.0),
    "wrist_pitch_joint": Limits(-1.61443, 1.61443, 5.0, 22.0),
    "wrist_yaw_joint": Limits(-1.61443, 1.61443, 5.0, 22.0),
}


def _right(name: str, left: Limits) -> Limits:
    """Rolls and yaws turn the other way round on the right."""
    mirrored = "pitch" not in name and "knee" not in name and "elbow" not in name
    return Limits(-left.upper, -left.lower, left.torque, left.speed) if mirrored else left


G1_LIMITS = (
    {f"left_{name}": limits for name, limits in _LEFT.items()}
    | _MIDDLE
    | {f"right_{name}": _right(name, limits) for name, limits in _LEFT.items()}
)
"""Limits by joint name: stops and torques of its menagerie model, speeds of its motors (mjlab)."""


JOINTS = (
    Joint("left_hip_pitch_joint", -0.2, 40.16, 2.559),
    Joint("left_hip_roll_joint", 0.0, 99.08, 6.311),
    Joint("left_hip_yaw_joint", 0.0, 40.16, 2.559),
    Joint("left_knee_joint", 0.42, 99.08, 6.311),
    Joint("left_ankle_pitch_joint", -0.23, 28.49, 1.815),
    Joint("left_ankle_roll_joint", 0.0, 28.49, 1.815),
    Joint("right_hip_pitch_joint", -0.2, 40.16, 2.559),
    Joint("right_hip_roll_joint", 0.0, 99.08, 6.311),
    Joint("right_hip_yaw_joint", 0.0, 40.16, 2.559),
    Joint("right_knee_joint", 0.42, 99.08, 6.311),
    Joint("right_ankle_pitch_joint", -0.23, 28.49, 1.815),
    Joint("right_ankle_roll_joint", 0.0, 28.49, 1.815),
    Joint("waist_yaw_joint", 0.0, 40.16, 2.559),
    Joint("waist_roll_joint", 0.0, 28.49, 1.815),
    Joint("waist_pitch_joint", 0.0, 28.49, 1.815),
    Joint("left_shoulder_pitch_joint", 0.35, 14.25, 0.907),
    Joint("left_shoulder_roll_joint", 0.18, 14.25, 0.907),
    Joint("left_shoulder_yaw_joint", 0.0, 14.25, 0.907),
    Joint("left_elbow_joint", 0.87, 14.25, 0.907),
    Joint("left_wrist_roll_joint", 0.0, 14.25, 0.907),
    Joint("left_wrist_pitch_joint", 0.0, 16.78, 1.068),
    Joint("left_wrist_yaw_joint", 0.0, 16.78, 1.068),
    Joint("right_shoulder_pitch_joint", 0.35, 14.25, 0.907),
    Joint("right_shoulder_roll_joint", -0.18, 14.25, 0.907),
    Joint("right_shoulder_yaw_joint", 0.0, 14.25, 0.907),
    Joint("right_elbow_joint", 0.87, 14.25, 0.907),
    Joint("right_wrist_roll_joint", 0.0, 14.25, 0.907),
    Joint("right_wrist_pitch_joint", 0.0, 16.78, 1.068),
    Joint("right_wrist_yaw_joint", 0.0, 16.78, 1.068),
)
"""Name, default angle, stiffness and damping."""

PPO_ACTION_SCALE = tuple(0.25 * G1_LIMITS[joint.name].torque / joint.stiffness for joint in JOINTS)
"""Radians per unit of action where actions have no bounds: one unit asks a motor at rest for a quarter of its torque.
The paper names none; these belong to the design that its gains are from (BeyondMimic)."""


def _reach(joint: Joint, unit: float) -> float:
    limits = G1_LIMITS[joint.name]
    return min(3.0 * unit, max(limits.upper - joint.default, joint.default - limits.lower))


ACTION_SCALE = tuple(_reach(joint, unit) for joint, unit in zip(JOINTS, PPO_ACTION_SCALE, strict=True))
"""The same for FlashSAC, whose actions end at one unit: three of PPO's, or as far as the joint goes. With one of PPO's
no foot could be put on a step of 23 cm."""

OBSERVATION = (
    Term("angular_velocity", 3, noise=0.2),
    Term("gravity", 3, noise=0.05),
    Term("command", 3),
    Term("joint_position", len(JOINTS), noise=0.01),
    Term("joint_velocity", len(JOINTS), noise=1.5),
    Term("last_action", len(JOINTS)),
)
"""Terms of the paper's observation vector, in its order."""

HEIGHT_MAP = (17, 11)
"""Points ahead and to the side that the critic knows the height of."""

HEIGHT_MAP_SPACING = 0.1
"""Metres between them. The paper names none; this is the usual choice, 0.8 m ahead and behind, 0.5 m to either side."""

PRIVILEGED = (
    Term("linear_velocity", 3, noise=0.1),
    Term("foot_contact", 2),
    Term("height_map", HEIGHT_MAP[0] * HEIGHT_MAP[1]),
)
"""What the critic sees beside the actor's observation. The map runs from right to left, and in each line from behind to
ahead."""

STANDING_HEIGHT = 0.78
"""Metres from the ground to the base's origin, in the default pose with the soles on the ground."""


@dataclasses.dataclass(frozen=True)
class Commands:
    """What the robot is asked to do. Ours too: the ranges of Legged Lab."""

    ahead: Range = (-0.6, 1.0)
    """m/s"""
    left: Range = (-0.5, 0.5)
    """m/s"""
    turn: Range = (-1.57, 1.57)
    """rad/s, and the bound of what turns the robot to its wanted heading"""
    heading: Range = (-math.pi, math.pi)
    """rad; the turning command is half the difference from it, in rad/s"""
    every: Range = (10.0, 10.0)
    """s from one command to the next"""
    standing: float = 0.2
    """share of commands that say stop"""


COMMANDS = Commands()

G1 = Robot(
    "unitree_g1",
    JOINTS,
    ACTION_SCALE,
    OBSERVATION,
    command_range=(COMMANDS.ahead, COMMANDS.left, COMMANDS.turn),
)
