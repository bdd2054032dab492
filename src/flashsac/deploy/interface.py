"""What the loop asks of a robot, be it simulated or real."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np


@dataclasses.dataclass(frozen=True)
class Sensors:
    """What a robot feels. Joints are in the policy's order."""

    time: float
    """When it was measured, on the robot's clock."""
    quaternion: np.ndarray
    """Of the base in the world: w, x, y, z."""
    angular_velocity: np.ndarray
    """In the base's frame, rad/s."""
    position: np.ndarray
    """Joint angles, rad."""
    velocity: np.ndarray
    """rad/s"""
    linear_velocity: np.ndarray | None = None
    """Of the base, in its own frame, m/s; None where nothing measures it."""

    @property
    def finite(self) -> bool:
        felt = (self.quaternion, self.angular_velocity, self.position, self.velocity)
        return all(bool(np.isfinite(values).all()) for values in felt)


class RobotInterface(Protocol):
    """One robot. Motors follow torque = stiffness (target - position) - damping velocity."""

    def now(self) -> float:
        """Seconds, on the clock that stamps the sensors."""
        ...

    def read(self) -> Sensors:
        """The newest there is; its time tells how new."""
        ...

    def write(self, target: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        """Hold until the next call, one motor period later. A simulated robot moves on by that period."""
        ...

    def problem(self) -> str | None:
        """Why it takes no more orders, if so; it damps by itself then."""
        ...

    def damp(self) -> None:
        """No stiffness, damping alone: it sinks to the ground."""
        ...

    def close(self) -> None:
        """Let go of it; it must be damped before."""
        ...


def gravity_in_base(quaternion: np.ndarray) -> np.ndarray:
    """The direction of gravity in the base's frame: (0, 0, -1) when upright."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array([2 * (w * y - x * z), -2 * (w * x + y * z), 2 * (x * x + y * y) - 1])
