"""Safety between policy and robot: limits of the targets, and reasons to stop. A stop is final."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated

import numpy as np

from flashsac.deploy.commands.base import Command
from flashsac.deploy.interface import Sensors, gravity_in_base
from flashsac.errors import FlashSACError
from flashsac.robots.description import Limits, Robot
from flashsac.system.limits import Above, Between, check_limits


@dataclasses.dataclass(frozen=True)
class SafetyLimits:
    """Safety limits; docs/deploy.md has them as a table. The limits of joints come with the robot."""

    tilt: Annotated[float, Between(0, math.pi, "(]")] = 1.0
    """Stop when the base leans further than this, rad."""
    state_age: Annotated[float, Above(0)] = 0.1
    """Stop when the newest sensor values are older than this, s."""
    command_zero: Annotated[float, Above(0)] = 0.3
    """Set the velocity command to zero when it is older than this, s."""
    command_stop: Annotated[float, Above(0)] = 1.5
    """Stop when the velocity command is older than this, s."""
    overtravel: Annotated[float, Above(0)] = 0.1
    """Stop when a joint is this far beyond its end stop, rad."""
    torque: Annotated[float, Between(0, 1, "(]")] = 1.0
    """Share of a motor's torque that a target may ask for."""
    speed: Annotated[float, Between(0, 1, "(]")] = 1.0
    """Share of a motor's speed at which its target may move."""
    late: Annotated[float, Above(0)] = 0.2
    """Stop a real robot when the loop lost more than this of the last second, s."""

    def __post_init__(self) -> None:
        """Refuse limits that would never stop anything: degrees for radians, percent for shares, NaN, infinity."""
        check_limits(self)
        if self.command_zero > self.command_stop:
            raise FlashSACError("--command-zero must not be longer than --command-stop.")


class Safety:
    """Safety of one episode. `reason` says why it stopped the robot. Arrays of joints have shape (joints,)."""

    def __init__(self, robot: Robot, limits: SafetyLimits | None = None):
        self.limits = limits or SafetyLimits()
        self.reason: str | None = None
        self._names = [joint.name for joint in robot.joints]
        known = joint_limits(robot)
        self._lower, self._upper = (np.array([getattr(joint, end) for joint in known]) for end in ("lower", "upper"))
        self._torque = self.limits.torque * np.array([joint.torque for joint in known])
        self._step = self.limits.speed * np.array([joint.speed for joint in known]) / robot.policy_hz
        self._stiffness = np.array([joint.stiffness for joint in robot.joints])
        self._damping = np.array([joint.damping for joint in robot.joints])
        self._slowest, self._fastest = np.array(robot.command_range).T
        self._last: np.ndarray | None = None

    def check(self, sensors: Sensors, now: float, command: Command | None) -> str | None:
        """Called every motor step: why to stop, or None. `command` is None until the first one has come."""
        if self.reason is None:
            self.reason = self._problem(sensors, now, command)
        return self.reason

    def _problem(self, sensors: Sensors, now: float, command: Command | None) -> str | None:
        limits = self.limits
        if now - sensors.time > limits.state_age:
            return f"watchdog: the robot's state is {now - sensors.time:.2f} s old"
        if not sensors.finite:
            return "the sensors are not finite"
        if not 0.9 < np.linalg.norm(sensors.quaternion) < 1.1:
            return f"the orientation {np.round(sensors.quaternion, 2)} is none: is the inertial sensor running?"
        tilt = tilt_of(sensors.quaternion)
        if tilt > limits.tilt:
            return f"tilt: the base leans {tilt:.2f} rad"
        beyond = np.maximum(self._lower - sensors.position, sensors.position - self._upper)
        worst = int(beyond.argmax())
        if beyond[worst] > limits.overtravel:
            return f"joint limit: {self._names[worst]} is {beyond[worst]:.2f} rad beyond its stop"
        if command is not None and command.ended:
            return command.ended
        if command is not None and command.age > limits.command_stop:
            return f"watchdog: no command for {command.age:.2f} s"
        return None

    def command(self, command: Command) -> np.ndarray:
        """The velocity command for the policy, shape (3,): within the trained range; zero if it is too old."""
        if command.age > self.limits.command_zero or not np.isfinite(command.velocity).all():
            return np.zeros(3)
        return np.clip(command.velocity, self._slowest, self._fastest)

    def target(self, wanted: np.ndarray, sensors: Sensors) -> np.ndarray:
        """Called every policy step: the target, rad, within the joints' end stops and the motors' speed."""
        if not np.isfinite(wanted).all():
            self.reason = self.reason or "the policy's action is not finite"
            wanted = sensors.position
        last = sensors.position if self._last is None else self._last
        wanted = np.clip(wanted, last - self._step, last + self._step)
        self._last = np.clip(wanted, self._lower, self._upper)
        return self._last

    def within_torque(self, target: np.ndarray, sensors: Sensors) -> np.ndarray:
        """Called every motor step: the target, rad, moved so that the motors' torque stays within its limit."""
        rest = sensors.position + self._damping * sensors.velocity / self._stiffness  # a target that asks for no torque
        reach = self._torque / self._stiffness
        return np.clip(target, rest - reach, rest + reach)


def joint_limits(robot: Robot) -> list[Limits]:
    """Limits in the order of the joints; OnnxPolicy.robot has refused a robot without them."""
    return [joint.limits for joint in robot.joints if joint.limits is not None]


def stop_damping(robot: Robot) -> np.ndarray:
    """Damping gains of a stop, Nms/rad: a motor brakes with its full torque at 20 rad/s, with less below."""
    return np.array([limits.torque / 20.0 for limits in joint_limits(robot)])


def tilt_of(quaternion: np.ndarray) -> float:
    """Angle between the vertical axes of the base and the world, rad."""
    return float(np.arccos(np.clip(-gravity_in_base(quaternion)[2], -1.0, 1.0)))
