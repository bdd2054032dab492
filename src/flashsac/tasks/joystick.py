"""What the observations of MuJoCo Playground's joystick tasks consist of, in the order of its source, and what follows
from that."""

from __future__ import annotations

import dataclasses

from flashsac.robots.g1 import JOINTS as G1_JOINTS
from flashsac.tasks.symmetry import Kind, mirror
from flashsac.types import EnvSpec

VELOCITY = (0, 3)
"""Columns of the actor's observation: the base's linear velocity comes first."""


@dataclasses.dataclass(frozen=True)
class Joystick:
    """A robot that follows commands."""

    joints: tuple[str, ...]
    feet: tuple[str, ...]
    actor: tuple[Kind, ...]
    privileged: tuple[Kind, ...]
    """What the critic sees after the actor's observation, to begin with: angular velocity, acceleration, gravity,
    linear velocity."""


_SENSED: tuple[Kind, ...] = ("polar", "axial", "polar")
_TRUE: tuple[Kind, ...] = ("axial", "polar", "polar", "polar", "axial", "joints", "joints")

_T1_ARM = ("Shoulder_Pitch", "Shoulder_Roll", "Elbow_Pitch", "Elbow_Yaw")
_T1_LEG = ("Hip_Pitch", "Hip_Roll", "Hip_Yaw", "Knee_Pitch", "Ankle_Pitch", "Ankle_Roll")
T1_JOINTS = (
    "AAHead_yaw",
    "Head_pitch",
    *(f"{side}_{part}" for side in ("Left", "Right") for part in _T1_ARM),
    "Waist",
    *(f"{side}_{part}" for side in ("Left", "Right") for part in _T1_LEG),
)


def _humanoid(joints: tuple[str, ...]) -> Joystick:
    phase: tuple[Kind, ...] = ("feet", "feet")
    return Joystick(
        joints,
        feet=("left", "right"),
        actor=(*_SENSED, "command", "joints", "joints", "joints", *phase),
        privileged=(*_TRUE, "scalar", "joints", "feet", "feet_polar", "feet"),
    )


_GO1 = Joystick(
    joints=tuple(f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")),
    feet=("FR", "FL", "RR", "RL"),
    actor=(*_SENSED, "joints", "joints", "joints", "command"),
    privileged=(*_TRUE, "joints", "feet", "feet_polar", "feet", "polar", "scalar"),
)

_BY_NAME = {
    "G1Joystick": _humanoid(tuple(joint.name for joint in G1_JOINTS)),
    "T1Joystick": _humanoid(T1_JOINTS),
    "Go1Joystick": _GO1,
}


def annotate_spec(spec: EnvSpec, task: str) -> EnvSpec:
    """Add where the velocity is and how everything looks in a mirror, if the task is one of these."""
    robot = next((robot for start, robot in _BY_NAME.items() if task.startswith(start)), None)
    if robot is None or "critic" not in spec.obs:
        return spec
    layouts = {"actor": robot.actor, "critic": robot.actor + robot.privileged, "action": ("joints",)}
    mirrors = {group: mirror(layout, robot.joints, robot.feet) for group, layout in layouts.items()}
    first = spec.obs["actor"] + 9  # after three vectors of the privileged part
    return dataclasses.replace(spec, velocity=(first, first + 3), actor_velocity=VELOCITY, mirrors=mirrors)
