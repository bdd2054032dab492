"""Robots as MuJoCo Playground's tasks know them (also in EnvPool, whose port keeps these conventions)."""

from __future__ import annotations

from flashsac.robot.description import Joint, Robot, Term, with_limits
from flashsac.robot.g1_limits import G1_LIMITS


def _leg(side: str) -> tuple[Joint, ...]:
    return (
        Joint(f"{side}_hip_pitch_joint", -0.312, 75.0, 2.0),
        Joint(f"{side}_hip_roll_joint", 0.0, 75.0, 2.0),
        Joint(f"{side}_hip_yaw_joint", 0.0, 75.0, 2.0),
        Joint(f"{side}_knee_joint", 0.669, 75.0, 2.0),
        Joint(f"{side}_ankle_pitch_joint", -0.363, 20.0, 1.0),
        Joint(f"{side}_ankle_roll_joint", 0.0, 2.0, 0.2),
    )


def _arm(side: str, outwards: float) -> tuple[Joint, ...]:
    return (
        Joint(f"{side}_shoulder_pitch_joint", 0.2, 75.0, 2.0),
        Joint(f"{side}_shoulder_roll_joint", 0.2 * outwards, 75.0, 2.0),
        Joint(f"{side}_shoulder_yaw_joint", 0.0, 75.0, 2.0),
        Joint(f"{side}_elbow_joint", 0.6, 75.0, 2.0),
        Joint(f"{side}_wrist_roll_joint", 0.0, 2.0, 0.2),
        Joint(f"{side}_wrist_pitch_joint", 0.0, 2.0, 0.2),
        Joint(f"{side}_wrist_yaw_joint", 0.0, 2.0, 0.2),
    )


G1_JOINTS = (
    *_leg("left"),
    *_leg("right"),
    Joint("waist_yaw_joint", 0.0, 75.0, 2.0),
    Joint("waist_roll_joint", 0.0, 75.0, 2.0),
    Joint("waist_pitch_joint", 0.073, 75.0, 2.0),
    *_arm("left", 1.0),
    *_arm("right", -1.0),
)
"""The keyframe "knees_bent"; stiffness of its actuators, damping of its joints."""

G1_JOYSTICK = with_limits(
    Robot(
        "unitree_g1",
        G1_JOINTS,
        action_scale=(0.5,) * len(G1_JOINTS),
        observation=(
            Term("linear_velocity", 3, noise=0.1),
            Term("angular_velocity", 3, noise=0.2),
            Term("gravity", 3, noise=0.05),
            Term("command", 3),
            Term("joint_position", len(G1_JOINTS), noise=0.03),
            Term("joint_velocity", len(G1_JOINTS), noise=1.5),
            # The task computes the observation before it notes the action and moves the phase on.
            Term("last_action", len(G1_JOINTS), delay=1),
            Term("phase", 4, delay=1),
        ),
        policy_hz=50.0,
        motor_hz=500.0,
        gait_hz=1.375,  # trained on 1.25 to 1.5
        command_range=((-1.0, 1.0), (-0.5, 0.5), (-1.0, 1.0)),
    ),
    G1_LIMITS,
)
"""What `state` holds in G1JoystickFlatTerrain and G1JoystickRoughTerrain."""
