"""What the joints and motors of the 29-joint G1 can stand: stops and torques of its menagerie model, speeds of its motors (mjlab)."""

from __future__ import annotations

from flashsac.robot.description import Limits

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
"""By the joint's name."""
