"""Safety, by hand-computed numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from flashsac.deploy.commands.base import Command
from flashsac.deploy.commands.fixed import Fixed
from flashsac.deploy.interface import Sensors, gravity_in_base
from flashsac.deploy.loop import Episode, Loop
from flashsac.deploy.mujoco_robot import pd_torque
from flashsac.deploy.report import summarise, table
from flashsac.deploy.safety import MotorLimits, Safety, SafetyLimits, tilt_of
from flashsac.errors import FlashSACError
from flashsac.robots.description import Joint, Limits, Robot, Term
from tests.deploy.fake_robots import Puppet

TWO = Robot(
    "two_joints",
    (
        Joint("hip", 0.1, 50.0, 2.0, Limits(-1.0, 1.0, torque=20.0, speed=10.0)),
        Joint("knee", 0.5, 100.0, 5.0, Limits(0.0, 2.0, torque=60.0, speed=5.0)),
    ),
    (0.5, 0.5),
    (Term("joint_position", 2),),
    policy_hz=50.0,
    motor_hz=200.0,
    command_range=((-0.6, 1.0), (-0.5, 0.5), (-0.8, 0.8)),
)
UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])


def felt(position=(0.0, 0.5), velocity=(0.0, 0.0), quaternion=UPRIGHT, time=0.0) -> Sensors:
    return Sensors(time, np.array(quaternion), np.zeros(3), np.array(position, float), np.array(velocity, float))


def leaning(angle: float) -> np.ndarray:
    """About the y axis: forwards."""
    return np.array([np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0])


def test_gravity_and_tilt():
    np.testing.assert_allclose(gravity_in_base(UPRIGHT), [0, 0, -1])
    np.testing.assert_allclose(gravity_in_base(leaning(np.pi / 2)), [1, 0, 0], atol=1e-12)  # on its face
    on_its_side = np.array([np.sqrt(0.5), np.sqrt(0.5), 0, 0])  # rolled about x: the base's y points up
    np.testing.assert_allclose(gravity_in_base(on_its_side), [0, -1, 0], atol=1e-12)
    assert tilt_of(leaning(0.7)) == pytest.approx(0.7)
    turned = np.array([np.cos(1.0), 0, 0, np.sin(1.0)])
    assert tilt_of(turned) == pytest.approx(0.0, abs=1e-6)


def test_motor_torque():
    torque = pd_torque(np.array([0.3]), np.array([0.1]), np.array([2.0]), np.array([50.0]), np.array([1.5]))
    np.testing.assert_allclose(torque, [50 * 0.2 - 1.5 * 2.0])  # 7 Nm


def test_targets_stay_within_the_stops_and_the_speed():
    safety = Safety(TWO)
    # At 50 Hz, 10 rad/s are 0.2 rad a step, 5 rad/s are 0.1.
    np.testing.assert_allclose(safety.target(np.array([5.0, 0.55]), felt()), [0.2, 0.55])
    np.testing.assert_allclose(safety.target(np.array([5.0, -3.0]), felt()), [0.4, 0.45])
    for _ in range(10):
        target = safety.target(np.array([5.0, -3.0]), felt())
    np.testing.assert_allclose(target, [1.0, 0.0])
    half = Safety(TWO, SafetyLimits(speed=0.5))
    np.testing.assert_allclose(half.target(np.array([-5.0, 5.0]), felt()), [-0.1, 0.55])


def test_the_report_tells_what_was_held_back():
    puppet = Puppet(2)
    puppet.position = np.array([0.0, 0.35])
    loop = Loop(TWO, lambda obs: np.zeros(2), puppet, Fixed((0, 0, 0)), Safety(TWO), real_time=False)
    episode = loop.run(0.08)
    # To the default pose the knee, 0.1 rad a step, takes two steps, the hip one: one of eight targets is held back.
    np.testing.assert_allclose([moment.target[1] for moment in episode.moments], [0.45, 0.5, 0.5, 0.5])
    row = summarise(episode)
    assert row["held_back"] == 1 / 8
    assert "targets held back, share  0.125" in table([row])


def test_targets_ask_for_no_more_than_the_torque():
    safety = Safety(TWO)
    sensors = felt(position=(0.0, 0.5), velocity=(1.0, -2.0))
    # hip: 50 (x - 0) - 2 * 1 = 20 at x = 0.44; knee: 100 (x - 0.5) - 5 * -2 = 60 at x = 1.0, -60 at x = -0.2.
    np.testing.assert_allclose(safety.within_torque(np.array([0.9, 1.9]), sensors), [0.44, 1.0])
    np.testing.assert_allclose(safety.within_torque(np.array([0.1, 0.6]), sensors), [0.1, 0.6])
    np.testing.assert_allclose(safety.within_torque(np.array([-0.9, -0.9]), sensors), [-0.36, -0.2])
    half = Safety(TWO, SafetyLimits(torque=0.5))
    np.testing.assert_allclose(half.within_torque(np.array([0.9, 1.9]), sensors), [0.24, 0.7])


@pytest.mark.parametrize(
    ("sensors", "now", "command", "reason"),
    [
        (felt(quaternion=leaning(1.01)), 0.0, None, "tilt: the base leans 1.01 rad"),
        (felt(), 0.11, None, "watchdog: the robot's state is 0.11 s old"),
        (felt(position=(1.11, 0.5)), 0.0, None, "joint limit: hip is 0.11 rad beyond"),
        (felt(position=(0.0, -0.2)), 0.0, None, "joint limit: knee is 0.20 rad beyond"),
        (felt(velocity=(np.nan, 0.0)), 0.0, None, "not finite"),
        (felt(quaternion=np.zeros(4)), 0.0, None, "is the inertial sensor running?"),
        (felt(), 0.0, Command(np.zeros(3), 1.6), "watchdog: no command for 1.60 s"),
        (felt(), 0.0, Command(np.zeros(3), np.inf, "the key x"), "the key x"),
    ],
)
def test_stops(sensors, now, command, reason):
    safety = Safety(TWO)
    assert safety.check(felt(quaternion=leaning(0.99), position=(1.09, 0.5)), 0.09, Command(np.zeros(3), 1.4)) is None
    assert reason in safety.check(sensors, now, command)
    assert reason in safety.check(felt(), 0.0, None), "a stop is final"


def test_an_action_that_is_not_finite_stops():
    safety = Safety(TWO)
    np.testing.assert_allclose(safety.target(np.array([np.nan, 0.0]), felt()), [0.0, 0.5])
    assert "not finite" in safety.check(felt(), 0.0, None)


def test_commands_are_limited_and_grow_old():
    safety = Safety(TWO)
    fast = np.array([3.0, -2.0, 0.3])
    np.testing.assert_allclose(safety.command(Command(fast, 0.29)), [1.0, -0.5, 0.3])
    np.testing.assert_allclose(safety.command(Command(-fast, 0.29)), [-0.6, 0.5, -0.3])
    np.testing.assert_allclose(safety.command(Command(fast, 0.31)), [0, 0, 0])
    np.testing.assert_allclose(safety.command(Command(np.array([np.nan, 0, 0]))), [0, 0, 0])


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, -1.0])
def test_limits_that_would_never_stop_anything(value):
    for name in ("tilt", "torque", "command_stop"):
        with pytest.raises(FlashSACError, match=rf"--{name.replace('_', '-')} must lie in \(0.*, not {value:g}"):
            SafetyLimits(**{name: value})


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"tilt": 60.0}, "--tilt must lie in (0, 1.5], not 60"),  # degrees
        ({"tilt": 3.14}, "--tilt must lie in (0, 1.5], not 3.14"),  # a robot that lies on its face leans 1.57
        ({"state_age": 1e6}, "--state-age must lie in (0, 1], not 1e+06"),
        ({"overtravel": 1000.0}, "--overtravel must lie in (0, 0.5], not 1000"),
        ({"command_stop": 1e9}, "--command-stop must lie in (0, 10], not 1e+09"),
        ({"late": 100.0}, "--late must lie in (0, 1], not 100"),
        ({"torque": 50.0}, "--torque must lie in (0, 1], not 50"),  # percent
        ({"speed": 1.1}, "--speed must lie in (0, 1], not 1.1"),
        ({"command_zero": 2.0}, "--command-zero must not be longer than --command-stop"),
    ],
)
def test_limits_in_other_units(limits, message):
    with pytest.raises(FlashSACError, match=re.escape(message)):
        SafetyLimits(**limits)


class Clock:
    """Stands for the module `time`: only sleeping takes any."""

    def __init__(self) -> None:
        self._now = 0.0

    def perf_counter(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


def test_a_loop_that_cannot_keep_up_stops(monkeypatch):
    """A policy that takes 4 of the 5 ms of a motor step is in time; one that takes 40 loses half of every second."""
    puppet, clock = Puppet(2), Clock()
    monkeypatch.setattr("flashsac.deploy.loop.time", clock)

    def run(takes: float) -> Episode:
        def policy(obs):
            clock.sleep(takes)
            return np.zeros(2)

        return Loop(
            TWO, policy, puppet, Fixed((0.0, 0.0, 0.0)), Safety(TWO, SafetyLimits(state_age=1.0)), late=0.2
        ).run(2.0, damp=0.0)

    assert "the loop is too slow: it lost 0." in run(0.04).stopped
    assert run(0.004).stopped is None


def test_damping_gains():
    np.testing.assert_allclose(MotorLimits(TWO).stop_damping, [1.0, 3.0])
