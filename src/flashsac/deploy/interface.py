"""What the loop asks of a robot, simulated or real."""

# ruff: noqa: B027 (a hook that does nothing by default is meant)

from __future__ import annotations

import abc
import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Sensors:
    """Sensor values of a robot. Joints are in the policy's order."""

    time: float
    """Time of the measurement, on the robot's clock, s."""
    quaternion: np.ndarray
    """Shape (4,): orientation of the base in the world, as w, x, y, z."""
    angular_velocity: np.ndarray
    """Shape (3,): of the base, in its own frame, rad/s."""
    position: np.ndarray
    """Shape (joints,): joint angles, rad."""
    velocity: np.ndarray
    """Shape (joints,): joint velocities, rad/s."""
    linear_velocity: np.ndarray | None = None
    """Shape (3,): of the base, in its own frame, m/s; None where nothing measures it."""

    @property
    def finite(self) -> bool:
        felt = (self.quaternion, self.angular_velocity, self.position, self.velocity)
        return all(bool(np.isfinite(values).all()) for values in felt)


@dataclasses.dataclass(frozen=True)
class Torques:
    """Motor torques of an episode; only a simulated robot knows them."""

    given: np.ndarray
    """Shape (motor steps, joints), Nm. Within a policy step the first are the largest."""
    limits: np.ndarray
    """Shape (joints,): the motors' torque limits, Nm."""


class RobotInterface(abc.ABC):
    """One robot. Its motors follow torque = stiffness (target - position) - damping velocity.

    Arrays of joints have shape (joints,), in the policy's order. The hooks do nothing unless overridden."""

    @abc.abstractmethod
    def now(self) -> float:
        """Seconds, on the clock that stamps the sensors."""

    @abc.abstractmethod
    def read(self) -> Sensors:
        """The newest sensor values; their time says how new they are."""

    @abc.abstractmethod
    def write(self, target: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        """Hold until the next call, one motor period later. A simulated robot moves on by that period."""

    @abc.abstractmethod
    def damp(self) -> None:
        """Zero stiffness, damping alone: the robot sinks to the ground."""

    def problem(self) -> str | None:
        """Why the robot takes no more orders, or None. It damps by itself then."""
        return None

    def start_episode(self) -> None:
        """Prepare an episode."""

    def begin(self) -> None:
        """Hand over to the policy, before its first step."""

    def watch(self) -> str | None:
        """Return why the episode must stop, or None. The loop asks after every policy step."""
        return None

    def truth(self) -> Sensors | None:
        """The true state, without delays; None where only the sensors know."""
        return None

    def episode_torques(self) -> Torques | None:
        """The torques since the policy began; None where nothing measures them."""
        return None

    def finish(self) -> None:
        """Bring the robot to rest after the last episode."""

    def close(self) -> None:
        """Disconnect. The robot must be damped before."""


def gravity_in_base(quaternion: np.ndarray) -> np.ndarray:
    """Unit vector of gravity in the base's frame, shape (3,): (0, 0, -1) when upright."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array([2 * (w * y - x * z), -2 * (w * x + y * z), 2 * (x * x + y * y) - 1])
