"""The control loop: sensors, safety, policy and motors at a fixed rate, until the time is up or something stops it."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable

import numpy as np

from flashsac.deploy.commands.base import Commands
from flashsac.deploy.interface import RobotInterface, Sensors
from flashsac.deploy.observation import Observer
from flashsac.deploy.safety import Safety
from flashsac.robots.description import Robot

BY_HAND = "by hand"


@dataclasses.dataclass(frozen=True)
class Moment:
    """One policy step, for report and log. Arrays of joints have shape (joints,)."""

    seconds: float
    sensors: Sensors
    """The true state, where a simulation knows it; else the sensor values."""
    command: np.ndarray
    """Velocity command that the policy saw, shape (3,)."""
    wanted: np.ndarray
    """Joint angles that the policy asked for, rad."""
    target: np.ndarray
    """Those angles within the safety limits, rad."""
    inference: float
    """Time that the policy took, s."""


@dataclasses.dataclass
class Episode:
    """What happened in one episode."""

    seconds: float = 0.0
    """Time under the policy, until the end or the stop, s."""
    stopped: str | None = None
    """Why the episode ended early."""
    unheard: int = 0
    """Policy steps whose command was too old and became zero."""
    cut: int = 0
    """Policy steps whose command lay beyond what the policy was trained on."""
    moments: list[Moment] = dataclasses.field(default_factory=list)
    late: list[float] = dataclasses.field(default_factory=list)
    """Delay of each motor step, s; empty unless the loop ran in real time."""


class Pace:
    """A clock that lets every motor step begin on time, if the last one was done by then."""

    def __init__(self, period: float, real_time: bool):
        self._period, self._real_time = period, real_time
        self._next = time.perf_counter()
        self.late: list[float] = []
        self._lost: collections.deque[tuple[float, float]] = collections.deque()

    def wait(self) -> None:
        if not self._real_time:
            return
        self._next += self._period
        pause = self._next - time.perf_counter()
        if pause > 0:
            time.sleep(pause)
        late = time.perf_counter() - self._next
        self.late.append(late)
        if late > self._period:
            self._next += late  # missed steps are lost: catching up would send them in a burst
            self._lost.append((self._next, late))

    @property
    def lost(self) -> float:
        """Time that the loop lost within the last second, s."""
        while self._lost and self._lost[0][0] < time.perf_counter() - 1.0:
            self._lost.popleft()
        return sum(late for _, late in self._lost)


class Loop:
    """One episode with one robot."""

    def __init__(
        self,
        robot: Robot,
        policy: Callable[[dict[str, np.ndarray]], np.ndarray],
        interface: RobotInterface,
        commands: Commands,
        safety: Safety,
        *,
        observer: Observer | None = None,
        real_time: bool = True,
        stand: float = 0.0,
        late: float = np.inf,
    ):
        """`stand`: seconds to reach the default pose in. `late`: seconds of the last second that the loop may lose."""
        self.robot, self.interface, self.commands, self.safety = robot, interface, commands, safety
        self._policy, self._observer = policy, observer or Observer(robot)
        self._real_time, self._stand, self._late = real_time, stand, late
        self._default = np.array([joint.default for joint in robot.joints])
        self._scale = np.array(robot.action_scale)
        self._stiffness = np.array([joint.stiffness for joint in robot.joints])
        self._damping = np.array([joint.damping for joint in robot.joints])

    def run(self, seconds: float, *, damp: float = 1.0) -> Episode:
        """Stand up, follow commands for `seconds`, then damp for `damp` seconds, however the episode ended."""
        episode = Episode()
        pace = Pace(1.0 / self.robot.motor_hz, self._real_time)
        try:
            episode.stopped = self._follow(episode, seconds, pace)
        except KeyboardInterrupt:
            episode.stopped = BY_HAND
        finally:  # after an error too
            episode.late = pace.late.copy()
            for _ in range(max(1, round(damp * self.robot.motor_hz))):
                try:
                    self.interface.damp()
                    pace.wait()
                except KeyboardInterrupt:  # a second Ctrl-C must neither lose the episode nor cut the damping short
                    episode.stopped = episode.stopped or BY_HAND
        return episode

    def _follow(self, episode: Episode, seconds: float, pace: Pace) -> str | None:
        """Run the episode; returns why it stopped early, or None."""
        motor_steps = round(self.robot.motor_hz / self.robot.policy_hz)
        period = 1.0 / self.robot.policy_hz
        sensors = self.interface.read()
        self._observer.check(sensors)
        first, step, target, stands = sensors.position, 0, sensors.position, False
        while episode.seconds < seconds - 1e-9:
            for motor_step in range(motor_steps):
                sensors = self.interface.read()
                command = self.commands.read(episode.seconds)
                if reason := self.interface.problem() or self.safety.check(sensors, self.interface.now(), command):
                    return reason
                if motor_step == 0:
                    standing = min(step * period / self._stand, 1.0) if self._stand else 1.0
                    if standing == 1.0 and not stands:
                        stands = True
                        self.commands.listen()
                        command = self.commands.read(episode.seconds)
                    if standing < 1.0 or command is None:
                        # No command has come yet: hold the default pose and wait for the first.
                        target = self.safety.target(first + standing * (self._default - first), sensors)
                    else:
                        if not episode.moments:
                            self.interface.begin()
                        shown = self.safety.command(command)
                        if command.age > self.safety.limits.command_zero:
                            episode.unheard += 1
                        else:
                            episode.cut += not np.array_equal(shown, command.velocity)
                        target = self._act(episode, sensors, shown)
                        episode.seconds += period
                    step += 1
                order = self.safety.within_torque(target, sensors), self._stiffness, self._damping
                if self.safety.allows(*order):
                    self.interface.write(*order)
                    pace.wait()
            if reason := self.interface.watch() or self.safety.reason:
                return reason
            if (lost := pace.lost) > self._late:
                return (
                    f"the loop is too slow: it lost {lost:.2f} s of the last second (other programs? a smaller policy?)"
                )
        return None

    def _act(self, episode: Episode, sensors: Sensors, command: np.ndarray) -> np.ndarray:
        began = time.perf_counter()
        action = self._policy(self._observer.inputs(sensors, command))
        took = time.perf_counter() - began
        self._observer.note(action)
        wanted = self._default + self._scale * action
        target = self.safety.target(wanted, sensors)
        true = self.interface.truth() or sensors
        episode.moments.append(Moment(episode.seconds, true, command, wanted, target, took))
        return target
