"""Robot backends: all that differs between a simulated robot and a real one. `BACKENDS` lists them."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from flashsac.deploy.film import FilmedRobot
from flashsac.deploy.interface import RobotInterface
from flashsac.deploy.mujoco_robot import MujocoRobot, World
from flashsac.deploy.observation import check_blind
from flashsac.deploy.safety import SafetyLimits
from flashsac.deploy.unitree import UnitreeRobot
from flashsac.robots.description import Robot

HearRemote = Callable[[Sequence[int]], None]
"""A function that takes the bytes of the robot's remote."""


class Backend(abc.ABC):
    """One kind of robot. A subclass is a dataclass whose fields are the options that no other backend takes."""

    real: ClassVar[bool]
    """A real robot runs in real time."""
    default_command: ClassVar[tuple[float, float, float]]
    """Forwards and to the left (m/s), turning (rad/s)."""
    refusal: ClassVar[str]
    """Said after the flags that belong to other backends."""
    refused_commands: ClassVar[Mapping[str, str]] = {}
    """Why a value of --commands does not suit this backend."""
    episodes: int = 1
    noise: float = 0.0
    """Sensor noise added to the observation, as a share of the training's."""

    @property
    def moves_hardware(self) -> bool:
        """True if motors of a real robot move. Then an operator must start it, and its source of commands must be
        alive."""
        return False

    @property
    def stand_seconds(self) -> float:
        """Seconds to reach the default pose in, unless --stand names others."""
        return 0.0

    @property
    @abc.abstractmethod
    def waiting(self) -> str:
        """What the robot does until the policy begins."""

    def allowed_delay(self, safety: SafetyLimits) -> float:
        """Seconds of the last second that the loop may lose."""
        return np.inf

    def check(self, robot: Robot) -> None:  # noqa: B027
        """Raise an error if this backend cannot give the policy what it observes."""

    @abc.abstractmethod
    def open(self, robot: Robot, safety: SafetyLimits, seed: int, hear_remote: HearRemote) -> RobotInterface:
        """Take the robot over. `hear_remote` gets what the robot says of its remote, where it has one."""


@dataclasses.dataclass(frozen=True)
class MujocoBackend(Backend):
    """A robot in plain MuJoCo. A gantry holds it until the policy begins."""

    real = False
    default_command = (0.5, 0.0, 0.0)
    waiting = "the robot hangs on a gantry in its default pose until"
    refusal = "for a real robot alone. Leave it out, or add --robot unitree."
    refused_commands = {"remote": "a simulated robot has none. Take --keyboard, or add --robot unitree."}

    episodes: int = 1
    video: str | None = None
    noise: float = 0.0
    world: World = dataclasses.field(default_factory=World)

    def open(self, robot: Robot, safety: SafetyLimits, seed: int, hear_remote: HearRemote) -> RobotInterface:
        if self.video:
            return FilmedRobot(robot, self.world, Path(self.video), seed=seed)
        return MujocoRobot(robot, self.world, seed=seed)


@dataclasses.dataclass(frozen=True)
class UnitreeBackend(Backend):
    """A Unitree G1, by its SDK. A dry run listens and asks the policy, but sends nothing."""

    real = True
    default_command = (0.0, 0.0, 0.0)
    refusal = "for a simulated robot alone. Leave it out with --robot unitree."

    network: str | None = None
    dry_run: bool = False

    @property
    def moves_hardware(self) -> bool:
        return not self.dry_run

    @property
    def stand_seconds(self) -> float:
        return 0.0 if self.dry_run else 3.0

    @property
    def waiting(self) -> str:
        if self.dry_run:
            return "nothing is sent; the policy is asked when"
        return "the robot stands up and holds its default pose until"

    def allowed_delay(self, safety: SafetyLimits) -> float:
        return safety.late

    def check(self, robot: Robot) -> None:
        check_blind(robot)

    def open(self, robot: Robot, safety: SafetyLimits, seed: int, hear_remote: HearRemote) -> RobotInterface:
        return UnitreeRobot(robot, self.network, safety, dry=self.dry_run, hear_remote=hear_remote)


BACKENDS: dict[str, type[Backend]] = {"mujoco": MujocoBackend, "unitree": UnitreeBackend}
"""The choices of --robot."""
