"""The Unitree G1 with 29 joints, as the paper trains it (tables "Joint Information" and "Observation Space")."""

from __future__ import annotations

from flashsac.robot.description import Joint, Robot, Term
from flashsac.robot.g1_limits import G1_LIMITS
from flashsac.robot.randomize import COMMANDS

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
"""Radians per unit of action where actions have no bounds: one unit asks a motor at rest for a quarter of its torque. The paper names
none; these belong to the design that its gains are from (BeyondMimic)."""


def _reach(joint: Joint, unit: float) -> float:
    limits = G1_LIMITS[joint.name]
    return min(3.0 * unit, max(limits.upper - joint.default, joint.default - limits.lower))


ACTION_SCALE = tuple(_reach(joint, unit) for joint, unit in zip(JOINTS, PPO_ACTION_SCALE, strict=True))
"""The same for FlashSAC, whose actions end at one unit: three of PPO's, or as far as the joint goes. With one of PPO's no foot could
be put on a step of 23 cm."""

OBSERVATION = (
    Term("angular_velocity", 3, noise=0.2),
    Term("gravity", 3, noise=0.05),
    Term("command", 3),
    Term("joint_position", len(JOINTS), noise=0.01),
    Term("joint_velocity", len(JOINTS), noise=1.5),
    Term("last_action", len(JOINTS)),
)
"""In the order of the paper's observation vector."""

HEIGHT_MAP = (17, 11)
"""Points ahead and to the side that the critic knows the height of."""

HEIGHT_MAP_SPACING = 0.1
"""Metres between them. The paper names none; this is the usual choice, 0.8 m ahead and behind, 0.5 m to either side."""

PRIVILEGED = (
    Term("linear_velocity", 3, noise=0.1),
    Term("foot_contact", 2),
    Term("height_map", HEIGHT_MAP[0] * HEIGHT_MAP[1]),
)
"""What the critic sees beside the actor's observation. The map runs from right to left, and in each line from behind to ahead."""

STANDING_HEIGHT = 0.78
"""Metres from the ground to the base's origin, in the default pose with the soles on the ground."""

G1 = Robot(
    "unitree_g1",
    JOINTS,
    ACTION_SCALE,
    OBSERVATION,
    command_range=(COMMANDS.ahead, COMMANDS.left, COMMANDS.turn),
)
