"""What a robot's computer must know beside the network: joints, gains, what the policy sees and how fast it runs.

This module imports nothing heavy: the robot reads this from the exported file, without torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Literal

from flashsac.errors import FlashSACError
from flashsac.system.limits import Between, check_limits

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

Velocities and the direction of gravity in the base's frame; joint positions from the default pose; phase: cosines, then
sines."""


Range = tuple[float, float]
"""Lowest and highest."""

MAX_STIFFNESS, MAX_DAMPING = 1000.0, 100.0
"""Highest gains of any motor, Nm/rad and Nms/rad. `catalog.py` has lower ones for the robots that it knows."""
FASTEST_COMMAND = 10.0
"""m/s or rad/s; no command range may go beyond."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a joint and its motor. The annotations are what no robot exceeds."""

    lower: Annotated[float, Between(-10, 10, "[]")]
    upper: Annotated[float, Between(-10, 10, "[]")]
    """Angles at the stops, rad."""
    torque: Annotated[float, Between(0.01, 1000, "[]")]
    """Nm"""
    speed: Annotated[float, Between(0.01, 100, "[]")]
    """rad/s"""


@dataclasses.dataclass(frozen=True)
class Joint:
    """One motor."""

    name: str
    default: Annotated[float, Between(-10, 10, "[]")]
    """Angle of the default pose, rad; an action of zero holds it."""
    stiffness: Annotated[float, Between(0.1, MAX_STIFFNESS, "[]")]
    """Nm/rad"""
    damping: Annotated[float, Between(0, MAX_DAMPING, "[]")]
    """Nms/rad"""
    limits: Limits | None = None
    """A robot without limits is not deployed."""

    def __post_init__(self) -> None:
        """Refuse numbers that no motor may be told."""
        check_limits(self, f"{self.name}: ")
        if self.limits and not self.limits.lower < self.limits.upper:
            raise FlashSACError(
                f"{self.name}: its lower stop, {self.limits.lower:g}, must lie below its upper, {self.limits.upper:g}."
            )
        if self.limits and not self.limits.lower <= self.default <= self.limits.upper:
            raise FlashSACError(f"{self.name}: its default angle, {self.default:g}, must lie between its stops.")


@dataclasses.dataclass(frozen=True)
class Term:
    """One term of the observation."""

    name: TermName
    size: Annotated[int, Between(1, 10_000, "[]")]
    noise: Annotated[float, Between(0, 1000, "[]")] = 0.0
    """Half width of the uniform noise it was trained with, in its own unit."""
    scale: Annotated[float, Between(-1000, 1000, "[]")] = 1.0
    """Factor on the value."""
    delay: Annotated[int, Between(0, 100, "[]")] = 0
    """Policy steps by which the task shows it late: with 1, last_action is the one before the last."""

    def __post_init__(self) -> None:
        check_limits(self, f"{self.name}: ")


@dataclasses.dataclass(frozen=True)
class Robot:
    """A robot as its policy knows it. One with a number out of range, or with parts that do not fit, cannot be made."""

    name: str
    joints: tuple[Joint, ...]
    """The joints, in the order of the policy's actions."""
    action_scale: tuple[float, ...]
    """Radians from the default pose per unit of action, by joint."""
    observation: tuple[Term, ...]
    """What the actor sees, in order."""
    history: Annotated[int, Between(0, 1000, "[]")] = 0
    """Number of past observations that the policy takes beside the newest."""
    policy_hz: Annotated[float, Between(5, 1000, "[]")] = 50.0
    motor_hz: Annotated[float, Between(50, 5000, "[]")] = 200.0
    """A whole multiple of `policy_hz`."""
    gait_hz: Annotated[float | None, Between(0.1, 10, "[]")] = None
    """Gait cycles a second, where the policy sees the phase of its gait."""
    command_range: tuple[Range, Range, Range] = ((-1.0, 1.0), (-0.5, 0.5), (-1.0, 1.0))
    """Commands of the training, lowest and highest: forwards, to the left, m/s; turning, rad/s."""

    def __post_init__(self) -> None:
        check_limits(self, f"{self.name}: ")
        if problem := self._problem():
            raise FlashSACError(f"{self.name}: {problem}.")

    def _problem(self) -> str | None:
        """What does not fit together, or None."""
        names, terms = [joint.name for joint in self.joints], [term.name for term in self.observation]
        if not names or len({*names}) < len(names) or not terms or len({*terms}) < len(terms):
            return "joints and terms of the observation must be there, each of them once"
        if len(self.action_scale) != len(names):
            return f"{len(self.action_scale)} action scales for {len(names)} joints"
        if not all(0 < scale <= 100 for scale in self.action_scale):
            return "an action scale must lie in (0, 100]"
        ratio = self.motor_hz / self.policy_hz
        if ratio < 1 - 1e-6 or abs(ratio - round(ratio)) > 1e-6 * ratio:
            return f"motor_hz, {self.motor_hz:g}, must be a whole multiple of policy_hz, {self.policy_hz:g}"
        if not all(-FASTEST_COMMAND <= low <= high <= FASTEST_COMMAND for low, high in self.command_range):
            return f"a command range must rise, from -{FASTEST_COMMAND:g} at least to {FASTEST_COMMAND:g} at most"
        for term in self.observation:
            by_joint = term.name in ("joint_position", "joint_velocity", "last_action")
            if by_joint and term.size != len(names):
                return f"{term.name} has {term.size} numbers for {len(names)} joints"
            if term.name in ("linear_velocity", "angular_velocity", "gravity", "command") and term.size != 3:
                return f"{term.name} has {term.size} numbers, not 3"
            if term.name == "phase" and (term.size % 2 or self.gait_hz is None):
                return "phase needs a cosine and a sine for each leg, and gait_hz"
            if term.name in ("foot_contact", "height_map"):
                return f"no robot measures {term.name}, so a policy must not see it"
        return None

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


def with_limits(robot: Robot, limits: Mapping[str, Limits]) -> Robot:
    """The robot with the limits of its joints, by name."""
    joints = tuple(dataclasses.replace(joint, limits=limits[joint.name]) for joint in robot.joints)
    return dataclasses.replace(robot, joints=joints)
