"""Robots as MuJoCo Playground's tasks know them (also in EnvPool, whose port keeps these conventions)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from flashsac.errors import FlashSACError
from flashsac.robots.description import Joint, Robot, Term, with_limits
from flashsac.robots.g1 import G1_LIMITS


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

SETTINGS = {
    "ctrl_dt": 0.02,
    "sim_dt": 0.002,
    "action_scale": 0.5,
    "noise_level": 1.0,
    "noise_linvel": 0.1,
    "noise_gyro": 0.2,
    "noise_gravity": 0.05,
    "noise_joint_pos": 0.03,
    "noise_joint_vel": 1.5,
    "lin_vel_x_min": -1.0,
    "lin_vel_x_max": 1.0,
    "lin_vel_y_min": -0.5,
    "lin_vel_y_max": 0.5,
    "ang_vel_yaw_min": -1.0,
    "ang_vel_yaw_max": 1.0,
}
"""Those of EnvPool's settings (--env.options) that a robot must know, and their defaults."""

OF_TRAINING_ALONE = re.compile(
    r"\w+_scale|push_\w+|tracking_sigma|max_foot_height|base_height_target|max_contact_force|soft_joint_pos_limit_factor"
    r"|max_episode_steps|seed|num_threads|thread_affinity_offset"
)
"""Those that it need not know: rewards, pushes, the simulator's own affairs."""


def g1_joystick(options: Sequence[str] = ()) -> Robot:
    """What `state` holds in G1JoystickFlatTerrain and G1JoystickRoughTerrain, when they were trained with these
    options."""
    given, joints = SETTINGS | _told(options), len(G1_JOINTS)

    def noise(name: str) -> float:
        return given["noise_level"] * given[f"noise_{name}"]

    robot = Robot(
        "unitree_g1",
        G1_JOINTS,
        action_scale=(given["action_scale"],) * joints,
        observation=(
            Term("linear_velocity", 3, noise=noise("linvel")),
            Term("angular_velocity", 3, noise=noise("gyro")),
            Term("gravity", 3, noise=noise("gravity")),
            Term("command", 3),
            Term("joint_position", joints, noise=noise("joint_pos")),
            Term("joint_velocity", joints, noise=noise("joint_vel")),
            # The task computes the observation before it notes the action and moves the phase on.
            Term("last_action", joints, delay=1),
            Term("phase", 4, delay=1),
        ),
        policy_hz=1.0 / given["ctrl_dt"],
        motor_hz=1.0 / given["sim_dt"],
        gait_hz=1.375,  # trained on 1.25 to 1.5
        command_range=(
            (given["lin_vel_x_min"], given["lin_vel_x_max"]),
            (given["lin_vel_y_min"], given["lin_vel_y_max"]),
            (given["ang_vel_yaw_min"], given["ang_vel_yaw_max"]),
        ),
    )
    return with_limits(robot, G1_LIMITS)


def _told(options: Sequence[str]) -> dict[str, float]:
    """Return the options by name; the last one of a name counts, as in training."""
    told = dict(option.split("=", 1) for option in options)
    for name, value in told.items():
        if name not in SETTINGS and not OF_TRAINING_ALONE.fullmatch(name):
            raise FlashSACError(
                f"this policy was trained with --env.options {name}={value}, and nobody knows what that means for the robot: say so "
                "in robots/playground.py, or train without it."
            )
    return {name: float(value) for name, value in told.items() if name in SETTINGS}


G1_JOYSTICK = g1_joystick()
