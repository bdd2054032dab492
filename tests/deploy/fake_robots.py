"""Robots and policies for tests of the loop."""

from __future__ import annotations

import struct
import sys
import threading
import time
import types
from typing import Any

import numpy as np

from flashsac.deploy.backends import UnitreeBackend
from flashsac.deploy.interface import RobotInterface, Sensors
from flashsac.deploy.mujoco_robot import MujocoRobot
from flashsac.robots.catalog import ROBOTS

BLIND_G1 = ROBOTS["mjlab:FlashSAC-G1-Flat"]
"""The paper's G1: nothing in its observation that a real one does not measure."""


class Puppet(RobotInterface):
    """Follows its targets at once; keeps what it was told."""

    def __init__(self, joints: int):
        self.position, self.quaternion = np.zeros(joints), np.array([1.0, 0.0, 0.0, 0.0])
        self.targets: list[np.ndarray] = []
        self.damped = 0
        self.frozen_at: float | None = None

    def now(self) -> float:
        return time.monotonic()

    def read(self) -> Sensors:
        at = self.now() if self.frozen_at is None else self.frozen_at
        return Sensors(at, self.quaternion, np.zeros(3), self.position, np.zeros_like(self.position))

    def write(self, target, stiffness, damping) -> None:
        self.targets.append(target)
        self.position = target

    def damp(self) -> None:
        self.damped += 1


class SimulatedUnitree(UnitreeBackend):
    """Treats a robot in MuJoCo, which feels the velocity of its base, as the real one."""

    def check(self, robot) -> None:
        pass

    def open(self, robot, safety, seed, hear_remote) -> RobotInterface:
        return MujocoRobot(robot)


class FakeG1:
    """Speaks the messages of the SDK: lowstate out at 500 Hz, lowcmd in. Each joint is a flywheel with the motor's law."""

    INERTIA = 0.1
    MODE_MACHINE = 5

    def __init__(self) -> None:
        self.q, self.dq = np.zeros(35), np.zeros(35)
        self.quaternion = [1.0, 0.0, 0.0, 0.0]
        self.silent = self.deaf = self.frozen = False
        self.keys = 0
        """Of the remote, as bits."""
        self.sticks = [0.0, 0.0, 0.0, 0.0]
        """Of the remote: left to the right, right to the right, right upwards, left upwards."""
        self.tick = 0
        self.check_code = 0
        """What CheckMode answers once it was asked to let go."""
        self.received: list[dict[str, Any]] = []
        self.built_in = ["ai", ""]
        """What CheckMode answers, one after the other."""
        self.handler: Any = None
        self._closed = threading.Event()

    # --- the robot's side -------------------------------------------------------------------------------------------

    def start(self, handler: Any) -> None:
        self.handler = handler
        threading.Thread(target=self._live, daemon=True).start()

    def _live(self) -> None:
        while not self._closed.wait(0.002):
            if self.received:
                last = self.received[-1]
                torque = last["kp"] * (last["q"] - self.q) + last["kd"] * (last["dq"] - self.dq) + last["tau"]
                self.dq = np.clip(self.dq + 0.002 * torque / self.INERTIA, -20, 20)
                self.q = self.q + 0.002 * self.dq
            if not self.silent:
                self.handler(self.state())

    def state(self) -> Any:
        motors = [types.SimpleNamespace(q=q, dq=dq) for q, dq in zip(self.q, self.dq, strict=True)]
        imu = types.SimpleNamespace(quaternion=list(self.quaternion), gyroscope=[0.0, 0.0, 0.0])
        self.tick += not self.frozen
        return types.SimpleNamespace(
            motor_state=motors,
            imu_state=imu,
            mode_machine=self.MODE_MACHINE,
            tick=self.tick,
            wireless_remote=remote(self.keys, *self.sticks),
        )

    def receive(self, message: Any) -> None:
        assert message.crc == checksum(message), "the robot drops messages with a wrong checksum"
        assert message.mode_machine == self.MODE_MACHINE
        assert message.mode_pr == 0
        fields = ("mode", "q", "dq", "kp", "kd", "tau")
        row = {name: np.array([getattr(motor, name) for motor in message.motor_cmd]) for name in fields}
        self.received.append(row | {"time": time.monotonic()})

    def damping_since(self) -> float | None:
        """When the messages last turned from following to damping."""
        since = None
        for row in self.received:
            damping = not row["kp"][:29].any() and row["kd"][:29].all()
            since = (since or row["time"]) if damping else None
        return since

    def close(self) -> None:
        self._closed.set()

    # --- the SDK's side ---------------------------------------------------------------------------------------------

    def modules(self) -> dict[str, types.ModuleType]:
        """By the names and with the calls of unitree_sdk2py, as its own G1 example uses them."""
        robot = self

        class ChannelPublisher:
            def __init__(self, name, kind):
                assert name == "rt/lowcmd"

            def Init(self):  # noqa: N802
                pass

            def Write(self, message):  # noqa: N802
                if robot.deaf:
                    return False
                robot.receive(message)
                return True

            def Close(self):  # noqa: N802
                pass

        class ChannelSubscriber:
            def __init__(self, name, kind):
                assert name == "rt/lowstate"

            def Init(self, handler, queue):  # noqa: N802
                assert queue == 0, "the SDK's queue drops the newest"
                robot.start(handler)

            def Close(self):  # noqa: N802
                robot.close()

        class CRC:
            def Crc(self, message):  # noqa: N802
                return checksum(message)

        class MotionSwitcherClient:
            def SetTimeout(self, seconds):  # noqa: N802
                pass

            def Init(self):  # noqa: N802
                pass

            def CheckMode(self):  # noqa: N802
                released = len(robot.built_in) == 1
                return robot.check_code if released else 0, {"name": robot.built_in[0]}

            def ReleaseMode(self):  # noqa: N802
                robot.built_in.pop(0)

        base = "unitree_sdk2py"
        contents: dict[str, dict[str, Any]] = {
            base: {},
            f"{base}.core": {},
            f"{base}.core.channel": {
                "ChannelFactoryInitialize": connect,
                "ChannelPublisher": ChannelPublisher,
                "ChannelSubscriber": ChannelSubscriber,
            },
            f"{base}.idl": {},
            f"{base}.idl.default": {"unitree_hg_msg_dds__LowCmd_": new_command},
            f"{base}.idl.unitree_hg": {},
            f"{base}.idl.unitree_hg.msg": {},
            f"{base}.idl.unitree_hg.msg.dds_": {"LowCmd_": object, "LowState_": object},
            f"{base}.utils": {},
            f"{base}.utils.crc": {"CRC": CRC},
            f"{base}.comm": {},
            f"{base}.comm.motion_switcher": {},
            f"{base}.comm.motion_switcher.motion_switcher_client": {"MotionSwitcherClient": MotionSwitcherClient},
        }
        modules = {}
        for name, values in contents.items():
            modules[name] = types.ModuleType(name)
            modules[name].__path__ = []  # type: ignore[attr-defined]
            vars(modules[name]).update(values)
        for name, module in modules.items():  # `from unitree_sdk2py.core import channel` looks for an attribute
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(modules[parent], child, module)
        return modules


def remote(keys: int, lx: float = 0.0, rx: float = 0.0, ry: float = 0.0, ly: float = 0.0) -> list[int]:
    """As Unitree documents it: head, keys, lx, rx, ry, L2, ly, idle."""
    return list(struct.pack("<2sH5f16x", b"\x55\x51", keys, lx, rx, ry, 0.0, ly))


def connect(domain: int, network: str | None = None) -> None:
    if network not in (None, "eth0"):
        raise Exception("channel factory init error.")  # as the SDK does


def new_command() -> Any:
    motors = [types.SimpleNamespace(mode=0, q=0.0, dq=0.0, kp=0.0, kd=0.0, tau=0.0) for _ in range(35)]
    return types.SimpleNamespace(motor_cmd=motors, mode_pr=1, mode_machine=0, crc=0)


def checksum(message: Any) -> int:
    values = [message.mode_pr, message.mode_machine]
    values += [x for motor in message.motor_cmd for x in (motor.mode, motor.q, motor.dq, motor.kp, motor.kd, motor.tau)]
    return hash(tuple(values))


def install(monkeypatch, robot: FakeG1) -> None:
    for name, module in robot.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
