"""What a deployed policy sees and does is what it saw and did in EnvPool, whose Playground tasks it was trained on."""

from __future__ import annotations

import dataclasses

import envpool
import mujoco
import numpy as np
import pytest

from flashsac.deploy.interface import Sensors, gravity_in_base
from flashsac.deploy.mujoco_robot import MujocoRobot, World
from flashsac.deploy.observation import Observer
from flashsac.errors import FlashSACError
from flashsac.robots.g1 import G1, G1_LIMITS
from flashsac.robots.playground import G1_JOYSTICK as ROBOT

STEPS = 6
DEFAULT = np.array([joint.default for joint in ROBOT.joints])


@dataclasses.dataclass
class Trace:
    """One environment of EnvPool: observations, the action after each, and the privileged numbers."""

    obs: np.ndarray
    privileged: np.ndarray
    actions: np.ndarray
    gait_hz: float


@pytest.fixture(scope="module")
def trace() -> Trace:
    options = dict(num_envs=1, seed=3, noise_level=0.0, push_enable=False)
    pool = envpool.make("G1JoystickFlatTerrain-v1", env_type="gymnasium", **options)
    obs, _ = pool.reset()
    seen, rng = [obs], np.random.default_rng(0)
    actions = rng.uniform(-0.4, 0.4, (STEPS, 29)).astype(np.float32)
    for action in actions:
        obs, _, terminated, _, _ = pool.step(action[None])
        assert not terminated[0]
        seen.append(obs)
    pool.close()
    states = np.array([one["state"][0] for one in seen])
    phase = np.arctan2(states[2, 101], states[2, 99])  # first leg, one step on
    return Trace(states, np.array([one["privileged_state"][0] for one in seen]), actions, phase * 50 / (2 * np.pi))


def quaternion_of(gravity: np.ndarray) -> np.ndarray:
    """One with this gravity; where it faces is nobody's business."""
    axis = np.cross(gravity, [0.0, 0.0, -1.0])
    half = np.concatenate([[1.0 - gravity[2]], axis])
    return half / np.linalg.norm(half)


def described(trace: Trace):
    return dataclasses.replace(ROBOT, gait_hz=trace.gait_hz)


def test_observations_are_put_together_as_the_task_does(trace):
    assert 1.25 <= trace.gait_hz <= 1.5
    observer = Observer(described(trace))
    command = trace.obs[0, 9:12]
    for step in range(STEPS + 1):
        own = trace.privileged[
            step, 103:
        ]  # gyro, accelerometer, gravity, velocity, turning in the world, joints, their velocities
        sensors = Sensors(
            0.0,
            quaternion=quaternion_of(own[6:9]),
            angular_velocity=own[:3],
            position=own[15:44] + DEFAULT,
            velocity=own[44:73],
            linear_velocity=own[9:12],
        )
        np.testing.assert_allclose(gravity_in_base(sensors.quaternion), own[6:9], atol=1e-6)
        np.testing.assert_allclose(observer.observe(sensors, command), trace.obs[step], atol=1e-5)
        if step < STEPS:
            observer.note(trace.actions[step])


def test_the_simulated_robot_moves_as_envpools(trace):
    # The training's simulator shows what the base's sensor feels as of the physics step before, 2 ms; joints as they are.
    robot = MujocoRobot(described(trace), World(scene="playground", spread=0.0, observation_delay=0.002))
    observer = Observer(described(trace))
    own = trace.privileged[0, 103:]
    data, arm = robot.data, np.array([0.04525, 0.0, -0.08339])  # from the base to its sensor
    # Where it faces, from how it turns in the world and in itself: friction is not quite the same in every direction.
    yaw = np.arctan2(own[13], own[12]) - np.arctan2(own[1], own[0])
    turn = np.array([[np.cos(yaw), -np.sin(yaw), 0.0], [np.sin(yaw), np.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
    data.qpos[2], data.qpos[3:7] = own[73], [np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]
    data.qpos[7:] = own[15:44] + DEFAULT
    data.qvel[:3], data.qvel[3:6] = turn @ (own[9:12] - np.cross(own[:3], arm)), own[:3]
    data.qvel[6:] = own[44:73]
    mujoco.mj_forward(robot.model, data)
    robot._felt.extend([robot._feel()] * 2)
    stiffness = np.array([joint.stiffness for joint in ROBOT.joints])
    damping = np.array([joint.damping for joint in ROBOT.joints])
    worst = {}
    for step in range(STEPS + 1):
        late, now = robot.read(), robot.truth()
        sensors = dataclasses.replace(late, position=now.position, velocity=now.velocity)
        got = observer.observe(sensors, trace.obs[step, 9:12])
        start = 0
        for term in ROBOT.observation:
            rows = slice(start, start + term.size)
            difference = np.abs(got[rows] - trace.obs[step, rows]).max()
            worst[term.name] = max(worst.get(term.name, 0.0), float(difference))
            start += term.size
        if step < STEPS:
            target = DEFAULT + 0.5 * trace.actions[step]
            for _ in range(10):
                robot.write(target, stiffness, damping)
            observer.note(trace.actions[step])
    assert max(worst.values()) < 1e-5, worst


def test_the_description_is_that_of_the_models():
    menagerie, playground = (MujocoRobot(ROBOT, World(scene=scene)).model for scene in ("menagerie", "playground"))
    for model in (menagerie, playground):
        names = [model.joint(i).name for i in range(1, model.njnt)]
        assert names == [joint.name for joint in ROBOT.joints] == [joint.name for joint in G1.joints]
    # Not Playground's: there the right hip rolls between the stops of the left one.
    for name, limits in G1_LIMITS.items():
        joint = menagerie.joint(name)
        np.testing.assert_allclose(joint.range, [limits.lower, limits.upper])
        np.testing.assert_allclose(menagerie.jnt_actfrcrange[joint.id], [-limits.torque, limits.torque])
    np.testing.assert_allclose(playground.keyframe("knees_bent").qpos[7:], DEFAULT)


def test_a_robot_that_does_not_measure_its_velocity_is_refused():
    sensors = Sensors(0.0, np.array([1.0, 0, 0, 0]), np.zeros(3), DEFAULT, np.zeros(29))
    with pytest.raises(FlashSACError, match="does not measure"):
        Observer(ROBOT).check(sensors)
    Observer(G1).check(sensors)
    assert Observer(G1).observe(sensors, np.zeros(3)).shape == (96,)


def test_the_past_as_in_training():
    """The first observation stands for those before it; then each moves up by one."""
    robot = dataclasses.replace(ROBOT.blind(), history=3)
    observer = Observer(robot)
    sensors = Sensors(0.0, np.array([1.0, 0, 0, 0]), np.zeros(3), DEFAULT, np.zeros(29))
    observer.check(sensors)
    seen = []
    for step in range(5):
        given = observer.inputs(sensors, np.array([step, 0.0, 0.0]))
        observer.note(np.zeros(29))
        seen.append(given["actor"])
        before = [seen[0]] * 3 + seen
        np.testing.assert_array_equal(given["history"], np.concatenate(before[-4:-1]))
        assert {name: rows.shape for name, rows in given.items()} == robot.shapes()
    assert seen[2][6] == 2.0, "angular velocity, gravity, then the command"


def test_noise_is_the_trainings():
    sensors = Sensors(0.0, np.array([1.0, 0, 0, 0]), np.zeros(3), DEFAULT, np.zeros(29), np.zeros(3))
    clean = Observer(ROBOT).observe(sensors, np.zeros(3))
    noisy = Observer(ROBOT, noise=1.0, seed=1)
    spread = np.abs(np.array([noisy.observe(sensors, np.zeros(3)) for _ in range(300)]) - clean).max(axis=0)
    start = 0
    for term in ROBOT.observation:
        part = spread[start : start + term.size]
        assert np.all(part <= term.noise + 1e-6)
        assert np.all(part >= 0.95 * term.noise)
        start += term.size
