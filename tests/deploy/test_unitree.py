"""The SDK's interface against a robot that speaks its messages. No hardware was involved."""

from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from flashsac.deploy import robot_lock
from flashsac.deploy.backends import UnitreeBackend
from flashsac.deploy.commands.fixed import Fixed
from flashsac.deploy.commands.remote import L2, A, Sticks
from flashsac.deploy.loop import Loop
from flashsac.deploy.safety import MotorLimits, Safety, SafetyLimits
from flashsac.deploy.unitree import UnitreeRobot
from flashsac.errors import FlashSACError
from flashsac.robots.playground import G1_JOYSTICK
from tests.deploy.fake_robots import BLIND_G1, FakeG1, Puppet, install, remote
from tests.helpers import environment, wait_until

DEFAULT = np.array([joint.default for joint in BLIND_G1.joints])
STIFFNESS = np.array([joint.stiffness for joint in BLIND_G1.joints])


@pytest.fixture
def fake(monkeypatch, tmp_path):
    robot = FakeG1()
    install(monkeypatch, robot)
    monkeypatch.setattr(robot_lock, "FOLDER", tmp_path)  # tests that run side by side have robots of their own
    yield robot
    robot.close()


def hold(obs: np.ndarray) -> np.ndarray:
    return np.zeros(29)


def loop(robot: UnitreeRobot, policy=hold, **options) -> Loop:
    # A busy machine may let the fake robot's thread wait for longer than a real robot ever would.
    safety = Safety(BLIND_G1, SafetyLimits(state_age=1.0))
    return Loop(BLIND_G1, policy, robot, Fixed((0.0, 0.0, 0.0)), safety, **options)


def test_stands_up_follows_and_damps(fake):
    robot = UnitreeRobot(BLIND_G1, watchdog=5.0)
    assert fake.built_in == [""], "the robot's own controller was told to let go"
    episode = loop(robot, stand=0.5).run(1.0, damp=0.1)
    assert episode.stopped is None
    assert episode.seconds == pytest.approx(1.0)
    following = [row for row in fake.received if row["kp"].any()]
    steps = np.abs(np.diff([row["q"][:29] for row in following], axis=0)).max()
    # The largest way, 0.87 rad, in 25 steps; on a busy machine some of them come late and are skipped.
    assert steps < 0.4, "stands up gradually"
    np.testing.assert_allclose(following[-1]["q"][:29], DEFAULT, atol=1e-6)
    np.testing.assert_allclose(following[-1]["kp"][:29], [joint.stiffness for joint in BLIND_G1.joints])
    np.testing.assert_allclose(following[-1]["kd"][:29], [joint.damping for joint in BLIND_G1.joints])
    assert following[-1]["mode"][:29].all()
    np.testing.assert_allclose(fake.q[:29], DEFAULT, atol=0.05)
    robot.close()
    last = fake.received[-1]
    assert not last["kp"].any()
    np.testing.assert_allclose(last["kd"][:29], MotorLimits(BLIND_G1).stop_damping)
    assert not last["kd"][29:].any(), "motors it does not have"


def test_a_dry_run_only_listens(fake):
    sticks = Sticks(BLIND_G1.command_range)
    robot = UnitreeBackend(dry_run=True).open(BLIND_G1, SafetyLimits(), 0, sticks.hear_remote)
    asked = []
    episode = loop(robot, lambda obs: asked.append(obs["actor"]) or np.ones(29)).run(0.6, damp=0.1)
    robot.close()
    assert episode.stopped is None
    assert len(asked) == 30
    assert np.abs(episode.moments[-1].target - fake.q[:29]).max() > 0.1, "it would have moved"
    assert fake.received == []
    assert fake.built_in == ["ai", ""], "its own controller was not asked to let go"
    assert not fake.q.any()


HOLD_A_ROBOT = """
import pathlib, sys, time
from flashsac.deploy import robot_lock
robot_lock.FOLDER = pathlib.Path(sys.argv[1])
with robot_lock.control_of("unitree_g1", sys.argv[2] or None):
    print("held", flush=True)
    time.sleep(3600)
"""


@pytest.mark.slow
def test_one_process_controls_a_robot(fake, tmp_path):
    for theirs, ours in (("eth0", "eth0"), ("", "eth0"), ("eth0", None)):
        command = [sys.executable, "-c", HOLD_A_ROBOT, str(tmp_path), theirs]
        other = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
        assert other.stdout.readline() == "held\n"
        with pytest.raises(
            FlashSACError, match=r"another process controls unitree_g1.* not touched: stop that process"
        ):
            UnitreeRobot(BLIND_G1, ours)
        with robot_lock.control_of("another_robot", ours):
            pass
        other.kill()  # the lock ends with the process, however that ends
        other.wait()
    assert fake.built_in == ["ai", ""]
    assert not fake.received
    with robot_lock.control_of("unitree_g1", "wlan0"):  # another robot, at another interface
        robot = UnitreeRobot(BLIND_G1, "eth0")
    with pytest.raises(FlashSACError, match="another process controls"), robot_lock.control_of("unitree_g1", "eth0"):
        pass
    robot.close()
    with robot_lock.control_of("unitree_g1", None):
        pass


def test_a_dry_run_needs_no_lock(fake):
    with robot_lock.control_of("unitree_g1", None):
        UnitreeRobot(BLIND_G1, dry=True).close()


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(robot_lock, "FOLDER", tmp_path)
    (tmp_path / "flashsac-unitree_g1.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FlashSACError, match="cannot be used"), robot_lock.control_of("unitree_g1", None):
        pass
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("target", np.nan),
        ("target", np.inf),
        ("target", 9.0),
        ("stiffness", np.nan),
        ("stiffness", 1e6),
        ("stiffness", -1.0),
        ("damping", np.nan),
        ("damping", -5.0),
        ("damping", 5e7),
    ],
)
def test_an_order_out_of_range_is_never_sent(fake, field, value):
    robot = UnitreeRobot(BLIND_G1, watchdog=5.0)
    order = {"target": DEFAULT.copy(), "stiffness": STIFFNESS.copy(), "damping": np.ones(29)}
    order[field][3] = value
    robot.write(**order)
    assert f"{field} {value:g} for left_knee_joint is out of range" in robot.problem()
    robot.write(DEFAULT, STIFFNESS, np.ones(29))
    sent = len(fake.received)
    assert wait_until(lambda: len(fake.received) > sent + 3)
    assert not any(row["kp"].any() for row in fake.received), "it damps, for good"
    assert all(np.isfinite(row[name]).all() for row in fake.received for name in ("q", "kp", "kd"))
    robot.close()


def test_ctrl_c_while_the_robot_is_taken_over(fake, monkeypatch):
    """It was asked to let go and may have: it must not be left without anybody."""

    def interrupt(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread() and seconds == 0.1:
            raise KeyboardInterrupt
        slept(seconds)

    slept = time.sleep
    monkeypatch.setattr("flashsac.deploy.unitree.time.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        UnitreeRobot(BLIND_G1)
    assert len(fake.received) > 50
    assert not any(row["kp"].any() for row in fake.received), "damped, for a second"


def test_ctrl_c_while_it_damps_loses_nothing(fake):
    puppet = Puppet(29)
    damp = puppet.damp

    def interrupted() -> None:
        damp()
        if puppet.damped == 3:
            raise KeyboardInterrupt

    puppet.damp = interrupted
    episode = loop(puppet).run(0.1, damp=0.1)
    assert puppet.damped == 20, "0.1 s, all of it"
    assert episode.stopped == "by hand"
    assert len(episode.moments) == 5


def test_damps_when_the_robot_tilts(fake):
    robot = UnitreeRobot(BLIND_G1)

    def fall(obs: np.ndarray) -> np.ndarray:
        fake.quaternion = [np.cos(0.6), np.sin(0.6), 0.0, 0.0]  # rolled by 1.2 rad
        return np.zeros(29)

    episode = loop(robot, fall).run(5.0, damp=0.1)
    assert "tilt: the base leans 1.20 rad" in episode.stopped
    assert episode.seconds < 0.2
    assert fake.damping_since() is not None
    robot.close()


def test_damps_when_the_robots_state_stops_coming(fake):
    robot = UnitreeRobot(BLIND_G1)
    began = time.monotonic()

    def deafen(obs: np.ndarray) -> np.ndarray:
        fake.silent = True
        return np.zeros(29)

    episode = loop(robot, deafen).run(5.0, damp=0.1)
    assert "the robot's state is" in episode.stopped
    assert time.monotonic() - began < 2.0
    assert fake.damping_since() is not None
    robot.close()


def test_damps_when_the_loop_hangs(fake):
    """The thread that sends does not wait for a policy that never answers; one that answers too late finds the robot stopped."""
    robot = UnitreeRobot(BLIND_G1, watchdog=0.1)
    robot.write(DEFAULT, STIFFNESS, np.ones(29))
    wrote = time.monotonic()
    time.sleep(0.6)
    assert 0.1 <= fake.damping_since() - wrote < 0.5
    robot.write(DEFAULT, STIFFNESS, np.ones(29))
    time.sleep(0.1)
    assert fake.damping_since() < wrote + 0.5, "a stop is final"
    assert loop(robot).run(1.0, damp=0.02).stopped == "watchdog: no order from the loop for 0.1 s"
    robot.close()


@pytest.mark.parametrize("keys", [1 << 3, 1 << 5 | 1 << 9, 1 << 1 | 1 << 8], ids=["select", "L2 and B", "L1 and A"])
def test_the_remote_stops_it(fake, keys):
    robot = UnitreeRobot(BLIND_G1, watchdog=5.0)

    asked = itertools.count()

    def press(obs: np.ndarray) -> np.ndarray:
        fake.keys = 1 << 9 if next(asked) < 10 else keys
        return np.zeros(29)

    episode = loop(robot, press).run(5.0, damp=0.02)
    assert episode.stopped == "stopped by the remote"
    assert next(asked) > 10, "B alone does nothing"
    fake.keys = 0
    robot.write(DEFAULT, STIFFNESS, np.ones(29))
    time.sleep(0.1)
    assert not fake.received[-1]["kp"].any(), "a stop is final"
    robot.close()


def test_the_sticks_of_the_remote(fake):
    """The policy begins with A and not before; then it is told where the sticks point."""
    sticks = Sticks(BLIND_G1.command_range)
    fake.keys = A  # still held from whatever it was pressed for
    robot = UnitreeRobot(BLIND_G1, watchdog=5.0, hear_remote=sticks.hear_remote)
    seen: list[np.ndarray] = []
    asked: list[int] = []

    def press_and_push() -> None:
        time.sleep(0.3)
        asked.append(len(seen))
        for keys, upwards in ((0, 0.0), (A, 0.0), (0, 1.0)):
            fake.keys, fake.sticks[3] = keys, upwards
            time.sleep(0.2)

    def policy(obs: dict[str, np.ndarray]) -> np.ndarray:
        seen.append(obs["actor"][6:9].copy())
        return np.zeros(29)

    threading.Thread(target=press_and_push, daemon=True).start()
    safety = Safety(BLIND_G1, SafetyLimits(state_age=0.5, command_zero=0.5))
    episode = Loop(BLIND_G1, policy, robot, sticks, safety).run(1.0, damp=0.1)
    robot.close()
    assert episode.stopped is None
    assert asked == [0], "it waited for A"
    assert not seen[0].any()
    np.testing.assert_allclose(seen[-1], [BLIND_G1.command_range[0][1], 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("messages", "begins"),
    [
        ([remote(0), remote(A)], True),
        ([remote(A)], False),  # held since before anybody listened
        ([remote(0), remote(A | L2)], False),  # something else to the robot's own controllers
        ([remote(0), remote(A, ly=1.0)], False),  # it would begin at full speed
        ([remote(0), remote(A, ly=1.0), remote(A)], True),
        ([remote(0), remote(A, lx=float("nan"))], False),
        ([remote(0), remote(A), remote(0)], True),
        ([], False),
    ],
)
def test_what_begins(messages, begins):
    sticks = Sticks(BLIND_G1.command_range)
    sticks.hear_remote(remote(0))
    sticks.hear_remote(remote(A))
    sticks.listen()
    for message in messages:
        sticks.hear_remote(message)
    assert (sticks.read(0.0) is not None) == begins


def test_what_the_sticks_say():
    sticks = Sticks(((-1.0, 2.0), (-0.5, 0.5), (-1.5, 1.5)))
    sticks.hear_remote(remote(0))
    sticks.hear_remote(remote(A))
    said = {
        (0.0, 0.0, 0.0, 0.5): (1.0, 0, 0),  # half-way up: half of 2 m/s
        (0.0, 0.0, 0.0, -0.5): (-0.5, 0, 0),  # and back, half of 1 m/s
        (0.8, 0.0, 0.0, 0.0): (0, -0.4, 0),  # to the right
        (0.0, -1.0, 1.0, 0.0): (0, 0, 1.5),  # turns to the left; up and down on the right stick are nothing
        (0.04, -0.04, 0.0, 0.04): (0, 0, 0),  # a stick that nobody touches
        (0.0, 0.0, 0.0, 3.0): (2.0, 0, 0),
    }
    for pushed, velocity in said.items():
        sticks.hear_remote(remote(0, *pushed))
        np.testing.assert_allclose(sticks.read(0.0).velocity, velocity, atol=1e-6)
    for nothing in ([0] * 40, remote(0, ly=float("nan"))):
        time.sleep(0.05)
        sticks.hear_remote(nothing)
    heard = sticks.read(0.0)
    assert heard.age > 0.1, "a remote that is switched off says nothing, and its last word grows old"
    np.testing.assert_allclose(heard.velocity, (2.0, 0, 0))


def test_a_state_that_repeats_itself_is_old(fake):
    robot = UnitreeRobot(BLIND_G1)

    def freeze(obs: np.ndarray) -> np.ndarray:
        fake.frozen = True
        return np.zeros(29)

    assert "the robot's state is" in loop(robot, freeze).run(5.0, damp=0.02).stopped
    robot.close()


def test_a_write_that_never_returns_is_noticed(fake, monkeypatch):
    robot = UnitreeRobot(BLIND_G1, watchdog=0.1)
    stuck = threading.Event()
    monkeypatch.setattr(fake, "receive", lambda message: stuck.wait())
    assert loop(robot).run(5.0, damp=0.02).stopped == "nothing was sent to the robot for 0.2 s"
    stuck.set()
    robot.close()


def test_orders_keep_their_rate(fake, monkeypatch):
    """Though each takes a while to send."""
    robot = UnitreeRobot(BLIND_G1, watchdog=5.0)
    monkeypatch.setattr(fake, "receive", lambda message: time.sleep(0.003) or sent.append(time.monotonic()))
    sent: list[float] = []
    time.sleep(1.0)
    assert np.median(np.diff(sent)) == pytest.approx(0.005, abs=0.0015), "200 Hz, not 5 + 3 ms apart"
    robot.close()


def test_stops_when_nothing_gets_through(fake):
    robot = UnitreeRobot(BLIND_G1, watchdog=0.5)

    def unplug(obs: np.ndarray) -> np.ndarray:
        fake.deaf = True
        return np.zeros(29)

    assert "nothing gets through to the robot any more" in loop(robot, unplug).run(10.0, damp=0.02).stopped
    fake.deaf = False
    time.sleep(0.1)
    assert not fake.received[-1]["kp"].any(), "the connection is back: it damps"
    robot.close()


def test_a_sender_that_fails_lives_on(fake, monkeypatch):
    robot = UnitreeRobot(BLIND_G1, watchdog=0.1)
    monkeypatch.setattr(fake, "receive", lambda message: 1 / 0)
    time.sleep(0.5)
    assert "division by zero" in robot.problem()
    monkeypatch.undo()
    fake.received.clear()
    time.sleep(0.1)
    assert fake.received, "it goes on damping"
    robot.close()


def test_joints_are_found_by_name(fake):
    turned = dataclasses.replace(BLIND_G1, joints=BLIND_G1.joints[::-1])
    robot = UnitreeRobot(turned, watchdog=5.0)
    fake.q = np.arange(35.0) / 100
    time.sleep(0.05)
    np.testing.assert_allclose(robot.read().position[0], fake.q[28], atol=0.01)
    robot.write(np.arange(29.0) / 1000, np.ones(29), np.ones(29))
    time.sleep(0.03)
    np.testing.assert_allclose(fake.received[-1]["q"][:29], np.arange(28, -1, -1) / 1000)
    robot.close()


def test_the_robots_own_controller_holds_it_until_all_is_checked(fake):
    with pytest.raises(FlashSACError, match="does not measure"):
        UnitreeRobot(G1_JOYSTICK)
    with pytest.raises(FlashSACError, match="--network eth0"):
        UnitreeRobot(BLIND_G1, "wlan9")
    fake.silent = True
    with pytest.raises(FlashSACError, match="no state from the robot"):
        UnitreeRobot(BLIND_G1, patience=0.1)
    assert fake.built_in == ["ai", ""]
    assert not fake.received


def test_a_robot_that_lies_on_the_ground_is_not_taken_over(fake):
    fake.quaternion = [np.cos(0.7), 0.0, np.sin(0.7), 0.0]
    with pytest.raises(FlashSACError, match=r"leans 1.40 rad. The robot was not touched"):
        UnitreeRobot(BLIND_G1)
    assert fake.built_in == ["ai", ""]
    assert not fake.received


def test_damps_for_a_second_when_taking_over_fails_half_way(fake):
    fake.check_code = 3104
    with pytest.raises(FlashSACError, match=r"code 3104\). It may have let go: support the robot"):
        UnitreeRobot(BLIND_G1)
    assert fake.received[-1]["time"] - fake.damping_since() > 0.9


def test_damps_for_a_second_after_an_error_outside_of_the_loop(fake):
    robot = UnitreeRobot(BLIND_G1, watchdog=5.0)
    robot.write(DEFAULT, STIFFNESS, np.ones(29))
    time.sleep(0.1)
    robot.close()
    assert fake.received[-1]["time"] - fake.damping_since() > 0.9


def test_a_loop_refuses_what_the_robot_does_not_measure():
    puppet = Puppet(29)
    with pytest.raises(FlashSACError, match="does not measure"):
        Loop(G1_JOYSTICK, hold, puppet, Fixed((0.0, 0.0, 0.0)), Safety(G1_JOYSTICK)).run(1.0, damp=0.02)
    assert not puppet.targets
    assert puppet.damped > 0


def test_errors(fake, monkeypatch):
    fake.built_in = ["ai"] * 60
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(FlashSACError, match="does not let go"):
        UnitreeRobot(BLIND_G1)
    for name in [name for name in sys.modules if name.startswith("unitree_sdk2py")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(FlashSACError, match="not on PyPI"):
        UnitreeRobot(BLIND_G1)


def test_it_needs_no_torch():
    """Neither does a robot's computer."""
    code = "import sys, flashsac.deploy.unitree; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
