"""What a robot's computer must know beside the network: joints, gains, what the policy sees and how fast it runs.

Imports nothing heavy: the robot reads this from the exported file, without torch.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal

from flashsac.errors import FlashSACError

TermName = Literal[
    "linear_velocity",
    "angular_velocity",
    "gravity",
    "command",
    "joint_position",
    "joint_velocity",
    "last_action",
    "phase",
    "foot_contact",
    "height_map",
]
"""The last two are for critics.

Velocities and the direction of gravity in the base's frame; joint positions from the default pose; phase: cosines, then sines."""


Range = tuple[float, float]
"""Lowest and highest."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a joint and its motor."""

    lower: float
    upper: float
    """Angles at the stops, rad."""
    torque: float
    """Nm"""
    speed: float
    """rad/s"""


@dataclasses.dataclass(frozen=True)
class Joint:
    """One motor."""

    name: str
    default: float
    """Angle of the default pose, rad; an action of zero holds it."""
    stiffness: float
    """Nm/rad"""
    damping: float
    """Nms/rad"""
    limits: Limits | None = None
    """A robot without limits is not deployed."""


@dataclasses.dataclass(frozen=True)
class Term:
    """One term of the observation."""

    name: TermName
    size: int
    noise: float = 0.0
    """Half width of the uniform noise it was trained with, in its own unit."""
    scale: float = 1.0
    """Factor on the value."""
    delay: int = 0
    """Policy steps by which the task shows it late: with 1, last_action is the one before the last."""


@dataclasses.dataclass(frozen=True)
class Robot:
    """A robot as its policy knows it."""

    name: str
    joints: tuple[Joint, ...]
    """In the order of the policy's actions."""
    action_scale: tuple[float, ...]
    """Radians from the default pose per unit of action, by joint."""
    observation: tuple[Term, ...]
    """What the actor sees, in order."""
    history: int = 0
    """Number of past observations that the policy takes beside the newest."""
    policy_hz: float = 50.0
    motor_hz: float = 200.0
    gait_hz: float | None = None
    """Steps a second of the phase, where the policy sees one."""
    command_range: tuple[Range, Range, Range] = ((-1.0, 1.0), (-0.5, 0.5), (-1.0, 1.0))
    """Commands it was trained on, lowest and highest: forwards, to the left, m/s; turning, rad/s."""

    @property
    def obs_dim(self) -> int:
        return sum(term.size for term in self.observation)

    def blind(self) -> Robot:
        """The robot as a policy knows it that was trained without the velocity of the base (--env.blind)."""
        seen = tuple(term for term in self.observation if term.name != "linear_velocity")
        return dataclasses.replace(self, observation=seen)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the policy's inputs."""
        shapes: dict[str, tuple[int, ...]] = {"actor": (self.obs_dim,)}
        return shapes | {"history": (self.history * self.obs_dim,)} if self.history else shapes

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Robot:
        """The inverse of `to_json`; refuses what is not a whole description."""
        try:
            values = json.loads(text)
            values["joints"] = tuple(_joint(**joint) for joint in values["joints"])
            values["observation"] = tuple(Term(**term) for term in values["observation"])
            values["action_scale"] = tuple(float(value) for value in values["action_scale"])
            values["command_range"] = tuple((float(low), float(high)) for low, high in values["command_range"])
            robot = Robot(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise FlashSACError(
                f"the robot's description in this file cannot be read ({error}); export the policy again."
            ) from None
        if len(robot.action_scale) != len(robot.joints):
            raise FlashSACError(
                f"{len(robot.action_scale)} action scales for {len(robot.joints)} joints; export the policy again."
            )
        return robot


def _joint(limits: dict[str, float] | None = None, **values: Any) -> Joint:
    return Joint(**values, limits=Limits(**limits) if limits else None)


def with_limits(robot: Robot, limits: Mapping[str, Limits]) -> Robot:
    """The robot with the limits of its joints, by name."""
    joints = tuple(dataclasses.replace(joint, limits=limits[joint.name]) for joint in robot.joints)
    return dataclasses.replace(robot, joints=joints)
