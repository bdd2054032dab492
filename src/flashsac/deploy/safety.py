"""Safety between policy and robot: limits of the targets, and reasons to stop. A stop is final."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import numpy as np

from flashsac.deploy.commands.base import Command
from flashsac.deploy.interface import Sensors, gravity_in_base
from flashsac.errors import FlashSACError
from flashsac.robots.catalog import bounded, highest_gains
from flashsac.robots.description import Robot
from flashsac.system.limits import Between, check_limits

BEYOND_STOPS = np.pi
"""Rad. Limiting the torque moves the target of a fast joint beyond its stop, but never this far unless a sensor
fails."""


@dataclasses.dataclass(frozen=True)
class SafetyLimits:
    """Safety limits; docs/deploy.md has them as a table. The limits of joints come with the robot."""

    tilt: Annotated[float, Between(0, 1.5, "(]")] = 1.0
    """Stop when the base leans further than this, rad."""
    state_age: Annotated[float, Between(0, 1, "(]")] = 0.1
    """Stop when the newest sensor values are older than this, s."""
    command_zero: Annotated[float, Between(0, 10, "(]")] = 0.3
    """Set the velocity command to zero when it is older than this, s."""
    command_stop: Annotated[float, Between(0, 10, "(]")] = 1.5
    """Stop when the velocity command is older than this, s."""
    overtravel: Annotated[float, Between(0, 0.5, "(]")] = 0.1
    """Stop when a joint is this far beyond its end stop, rad."""
    torque: Annotated[float, Between(0, 1, "(]")] = 1.0
    """Share of a motor's torque that a target may ask for."""
    speed: Annotated[float, Between(0, 1, "(]")] = 1.0
    """Share of a motor's speed at which its target may move."""
    late: Annotated[float, Between(0, 1, "(]")] = 0.2
    """Stop a real robot when the loop lost more than this of the last second, s."""

    def __post_init__(self) -> None:
        """Refuse limits that would never stop anything: degrees for radians, percent for shares, hours, NaN,
        infinity."""
        check_limits(self)
        if self.command_zero > self.command_stop:
            raise FlashSACError("--command-zero must not be longer than --command-stop.")


class Safety:
    """Safety of one episode. `reason` says why it stopped the robot. Arrays of joints have shape (joints,)."""

    def __init__(self, robot: Robot, limits: SafetyLimits | None = None):
        self.limits = limits or SafetyLimits()
        self.reason: str | None = None
        self._motors = motors = MotorLimits(robot)
        self._names, self._lower, self._upper = motors.names, motors.lower, motors.upper
        self._torque = self.limits.torque * motors.torque
        self._step = self.limits.speed * motors.speed / robot.policy_hz
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
            return f"the orientation {np.round(sensors.quaternion, 2)} is invalid: is the inertial sensor running?"
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

    def allows(self, target: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> bool:
        """Return whether an order may be sent to the motors. One that may not stops the robot."""
        self.reason = self.reason or self._motors.problem(target, stiffness, damping)
        return self.reason is None


class MotorLimits:
    """What the motors of a robot may be told: the smaller of its description's limits and ours. Arrays: (joints,)."""

    def __init__(self, robot: Robot):
        known = [joint.limits for joint in bounded(robot).joints if joint.limits]
        if len(known) < len(robot.joints):
            raise FlashSACError(f"the description of {robot.name} names no limits of its joints: it must not move.")
        self.names = [joint.name for joint in robot.joints]
        self.lower, self.upper, self.torque, self.speed = np.array([dataclasses.astuple(limits) for limits in known]).T
        self.stiffness, self.damping = np.array([highest_gains(robot.name, name) for name in self.names]).T

    def problem(self, target: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> str | None:
        """Why these must not be sent, or None."""
        for what, values, low, high in (
            ("target", target, self.lower - BEYOND_STOPS, self.upper + BEYOND_STOPS),
            ("stiffness", stiffness, 0.0, self.stiffness),
            ("damping", damping, 0.0, self.damping),
        ):
            wrong = ~((values >= low) & (values <= high))  # NaN too
            if wrong.any():
                worst = int(wrong.argmax())
                return f"{what} {values[worst]:g} for {self.names[worst]} is out of range and was not sent"
        return None

    @property
    def stop_damping(self) -> np.ndarray:
        """Damping gains of a stop, Nms/rad: a motor brakes with its full torque at 20 rad/s, with less below."""
        return np.minimum(self.torque / 20.0, self.damping)


def tilt_of(quaternion: np.ndarray) -> float:
    """Angle between the vertical axes of the base and the world, rad."""
    return float(np.arccos(np.clip(-gravity_in_base(quaternion)[2], -1.0, 1.0)))
