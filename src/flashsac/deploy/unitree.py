"""The Unitree G1 by its SDK (unitree_sdk2py): messages rt/lowcmd and rt/lowstate. It has not run on a robot yet."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flashsac.deploy.commands.remote import stop_pressed
from flashsac.deploy.interface import RobotInterface, Sensors
from flashsac.deploy.observation import check_blind
from flashsac.deploy.robot_lock import control_of
from flashsac.deploy.safety import MotorLimits, Safety, SafetyLimits
from flashsac.errors import FlashSACError, MissingExtra
from flashsac.robots.description import Robot
from flashsac.robots.g1 import JOINTS

MOTORS = tuple(joint.name for joint in JOINTS)
"""Names of the 29 motors, in the order of the SDK's messages."""

SERIES = 0
"""Value of mode_pr: ankles and waist are commanded by pitch and roll, not by the rods that drive them."""
ENABLED = 1
"""Value of a motor's mode."""
DAMPED_FOR = 1.0
"""Damping is sent for at least so many seconds before sending ends."""


@dataclasses.dataclass(frozen=True)
class _Order:
    target: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray
    time: float


class UnitreeRobot(RobotInterface):
    """A thread repeats the newest order at the motor rate.

    It damps for good in four cases, and `problem` tells the loop which one it was:

    - the loop gave no order for `watchdog` seconds;
    - nothing got through to the robot for as long;
    - an order was out of range;
    - somebody pressed stop on the remote.
    """

    def __init__(
        self,
        robot: Robot,
        network: str | None = None,
        limits: SafetyLimits | None = None,
        *,
        dry: bool = False,
        hear_remote: Callable[[Sequence[int]], None] = lambda remote: None,
        watchdog: float = 0.1,
        patience: float = 5.0,
    ):
        """`network`: interface that the robot is connected to, for example eth0. `limits`: the robot must keep to them
        before it is taken over. `dry`: listen only; the robot's own controller keeps it. `hear_remote`: called with the
        bytes of its remote. `patience`: seconds to wait for its first state."""
        if robot.name != "unitree_g1":
            raise FlashSACError(f"--robot unitree speaks to a G1, but this policy is for {robot.name}.")
        check_blind(robot)
        self.robot, self._dry, self._hear_remote = robot, dry, hear_remote
        self._motor = np.array([MOTORS.index(joint.name) for joint in robot.joints])
        self._limits, self._watchdog = MotorLimits(robot), watchdog
        self._damping = self._limits.stop_damping
        self._state: tuple[Any, float] | None = None
        self._order: _Order | None = None
        self._problem: str | None = None
        self._got_through = self._damped_since = self.now()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._send_forever, name="motors", daemon=True)
        with contextlib.ExitStack() as opened:
            if not dry:  # who only listens disturbs nobody
                opened.enter_context(control_of(robot.name, network))
            self._sdk = sdk = _Sdk(network)
            if not dry:
                self._message = sdk.new_command()
                self._publisher = sdk.publisher()
                opened.callback(self._publisher.Close)
            self._subscriber = sdk.subscriber(self._on_state)
            opened.callback(self._subscriber.Close)
            self._wait_for_state(patience)
            if problem := self._problem or Safety(robot, limits).check(self.read(), self.now(), None):
                raise FlashSACError(f"{problem}. The robot was not touched: see to it, then begin again.")
            if not dry:
                # Last of all: from here on only we hold the robot. Damping begins with the release, not after it.
                opened.callback(self._stop_sending)
                sdk.release_built_in_motion(self._begin_damping)
            self._channels = opened.pop_all()

    def _begin_damping(self) -> None:
        if not self._thread.is_alive():
            self._got_through = self._damped_since = self.now()
            self._thread.start()

    def _wait_for_state(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        while self._state is None:
            if time.monotonic() > deadline:
                raise FlashSACError(
                    f"no state from the robot within {patience:g} s. Is it on, connected, and --network its interface?"
                )
            time.sleep(0.01)

    def now(self) -> float:
        return time.monotonic()

    def read(self) -> Sensors:
        assert self._state is not None
        message, arrived = self._state
        motors = [message.motor_state[i] for i in self._motor]
        return Sensors(
            arrived,
            quaternion=np.array(message.imu_state.quaternion, float),
            angular_velocity=np.array(message.imu_state.gyroscope, float),
            position=np.array([motor.q for motor in motors]),
            velocity=np.array([motor.dq for motor in motors]),
        )

    def write(self, target: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        if problem := self._limits.problem(target, stiffness, damping):
            self._problem = self._problem or problem
        else:
            self._order = _Order(target, stiffness, damping, self.now())

    def problem(self) -> str | None:
        # Checked here too, because a write that never returns cannot report itself.
        if not self._dry and self._problem is None and self.now() - self._got_through > 2 * self._watchdog:
            self._problem = f"nothing was sent to the robot for {2 * self._watchdog:g} s"
        return self._problem

    def damp(self) -> None:
        if self._order is not None:
            self._order, self._damped_since = None, self.now()

    def close(self) -> None:
        self._channels.close()

    def _stop_sending(self) -> None:
        """Send damping for at least a second, whatever went wrong, then end the thread."""
        self.damp()
        if self._thread.is_alive():
            time.sleep(max(5.0 / self.robot.motor_hz, self._damped_since + DAMPED_FOR - self.now()))
            self._closed.set()
            self._thread.join(timeout=1.0)

    def _on_state(self, message: Any) -> None:
        if stop_pressed(message.wireless_remote):  # before anything that might fail
            self._problem = self._problem or "stopped by the remote"
        # A repeated message is no new state.
        if self._state is None or message.tick != self._state[0].tick:
            self._state = message, self.now()
            self._hear_remote(message.wireless_remote)

    def _send_forever(self) -> None:
        period = 1.0 / self.robot.motor_hz
        due = self.now()
        while not self._closed.wait(max(0.0, due - self.now())):
            due = max(due + period, self.now())  # what was missed is not made up for in a burst
            order = self._order
            if order is not None and self.now() - order.time > self._watchdog:
                self._problem = self._problem or f"watchdog: no order from the loop for {self._watchdog:g} s"
            try:
                sent, why = self._send(None if self._problem else order), "the SDK could not write"
            except Exception as error:  # whatever the SDK throws: this thread must live, to damp as soon as it can
                sent, why = False, str(error)
            if sent:
                self._got_through = self.now()
            elif self.now() - self._got_through > self._watchdog:
                self._problem = self._problem or f"nothing gets through to the robot any more ({why})"

    def _send(self, order: _Order | None) -> bool:
        """Send one message, damping if there is no order. Returns False if it was not sent."""
        assert self._state is not None
        message = self._message
        message.mode_pr = SERIES
        message.mode_machine = self._state[0].mode_machine
        for i, motor in enumerate(self._motor):
            command = message.motor_cmd[motor]
            command.mode, command.dq, command.tau = ENABLED, 0.0, 0.0
            command.q = float(order.target[i]) if order else 0.0
            command.kp = float(order.stiffness[i]) if order else 0.0
            command.kd = float(order.damping[i] if order else self._damping[i])
        message.crc = self._sdk.crc.Crc(message)
        return bool(self._publisher.Write(message))


class _Sdk:
    """The parts of the SDK that we use. The SDK is imported only here, because few machines have it."""

    def __init__(self, network: str | None):
        try:
            from unitree_sdk2py.core import channel
            from unitree_sdk2py.idl.default import unitree_hg_msg_dds__LowCmd_
            from unitree_sdk2py.idl.unitree_hg.msg.dds_ import LowCmd_, LowState_
            from unitree_sdk2py.utils.crc import CRC
        except ImportError as error:
            raise MissingExtra(
                f"--robot unitree needs unitree_sdk2py ({error}), which is not on PyPI. Install it from Unitree's repository "
                "unitree_sdk2_python. It needs a CycloneDDS 0.10 that you built and named in CYCLONEDDS_HOME (docs/deploy.md)."
            ) from None
        try:
            channel.ChannelFactoryInitialize(0, network)
        except Exception as error:  # the SDK raises nothing more exact
            raise FlashSACError(
                f"the SDK cannot use the network {network or 'it chose by itself'} ({error}). Name the interface that the robot is "
                "connected to: --network eth0 (`ip link` lists them)."
            ) from None
        self._channel, self._command, self._state = channel, LowCmd_, LowState_
        self.new_command, self.crc = unitree_hg_msg_dds__LowCmd_, CRC()

    def publisher(self) -> Any:
        made = self._channel.ChannelPublisher("rt/lowcmd", self._command)
        made.Init()
        return made

    def subscriber(self, handler: Any) -> Any:
        made = self._channel.ChannelSubscriber("rt/lowstate", self._state)
        made.Init(handler, 0)  # called at once: a queue would hand over the oldest first, and drop the newest
        return made

    def release_built_in_motion(self, released: Callable[[], None], tries: int = 50) -> None:
        """Make the robot's own controller let go of the motors. `released` is called once it has, or may have."""
        from unitree_sdk2py.comm.motion_switcher.motion_switcher_client import MotionSwitcherClient

        client = MotionSwitcherClient()
        client.SetTimeout(5.0)
        client.Init()
        asked = False
        try:
            for _ in range(tries):
                problem, mode = client.CheckMode()
                if problem:
                    raise FlashSACError(
                        f"the robot does not say whether its own controller holds the motors (code {problem}). It may have let go: "
                        "support the robot, put it into debug mode with the remote and try again."
                    )
                if not mode["name"]:
                    released()
                    return
                asked = True
                client.ReleaseMode()
                time.sleep(0.1)
            raise FlashSACError(
                "the robot's own controller does not let go of the motors. Put it into debug mode and try again."
            )
        except BaseException:  # Ctrl-C too: it was asked to let go, and may have
            if asked:
                released()
            raise
