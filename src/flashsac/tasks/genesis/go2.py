"""Walking with the Unitree Go2 on Genesis, after the locomotion example known from its documentation.

45 observations: angular velocity, projected gravity, command, joint positions (from the default pose), joint
velocities, last action. Rewards follow the example, with its weights; per second of simulation, so that a perfect
episode returns 24.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from flashsac.tasks.genesis.task import Outcome, Sampler, rotate_back
from flashsac.types import Obs

LEGS = ("FR", "FL", "RR", "RL")
JOINTS = tuple(f"{leg}_{part}_joint" for leg in LEGS for part in ("hip", "thigh", "calf"))
FEET = tuple(f"{leg}_foot" for leg in LEGS)
FORWARD_AND_SIDEWAYS = (0, 1)
"""The first degrees of freedom, those of the base; robots begin facing along x."""
DEFAULT_POSE = (0.0, 0.8, -1.5, 0.0, 0.8, -1.5, 0.0, 1.0, -1.5, 0.0, 1.0, -1.5)
STIFFNESS, DAMPING = 20.0, 0.5
ACTION_SCALE = 0.25
"""Radians from the default pose per unit of action."""
ACTION_LIMIT = 2.0
"""The bound on actions, half a radian either way. The example leaves actions unbounded, and the paper names no bounds.
The return of an untrained policy fits this bound or up to twice as much (docs/simulators/genesis.md). With this one,
robots fall less often."""
MAX_TILT = math.radians(10.0)
RESAMPLE_SECONDS = 4.0

TARGET_HEIGHT = 0.3
TRACKING_WIDTH = 0.25
WEIGHTS = {
    "tracking_lin_vel": 1.0,
    "tracking_ang_vel": 0.2,
    "lin_vel_z": -1.0,
    "base_height": -50.0,
    "action_rate": -0.005,
    "similar_to_default": -0.1,
}
"""Weights of the reward terms, per second."""

# What the example multiplies its observations by.
LIN_VEL_SCALE, ANG_VEL_SCALE, JOINT_VEL_SCALE = 2.0, 0.25, 0.05
WEIGHT_NEWTON = 150.0
"""About the robot's weight, the unit of contact forces."""


class Start(NamedTuple):
    """How episodes begin."""

    height: float
    joints: float
    """Joint angles differ from the default pose by up to this (rad)."""
    way: float
    """The largest part of the commanded velocity that a robot may begin with."""
    speed: float
    """Give or take this (m/s)."""


STARTS = {
    # The feet are just above the ground, in any phase of a step. A robot that already moves has to step, and FlashSAC
    # learns to walk. From robots that stand still, it learns to stand or to fall forwards (docs/log.md).
    "moving": Start(height=0.35, joints=0.25, way=1.0, speed=0.2),
    # The example's, but for the joints, so that no two episodes are the same: dropped from a hand above the ground.
    "still": Start(height=0.42, joints=0.05, way=0.0, speed=0.0),
}


class Body(NamedTuple):
    """The robots' state as rewards and observations need it; velocities in the body's frame."""

    height: Tensor
    lin_vel: Tensor
    ang_vel: Tensor
    gravity: Tensor
    """The direction of gravity in the body's frame: (0, 0, -1) when upright."""
    joint_offset: Tensor
    """Joint angles minus those of the default pose."""
    joint_vel: Tensor


def reward_terms(body: Body, command: Tensor, action: Tensor, last_action: Tensor) -> dict[str, Tensor]:
    """Each term by itself, without its weight."""
    lin_vel_error = (command[:, :2] - body.lin_vel[:, :2]).square().sum(1)
    ang_vel_error = (command[:, 2] - body.ang_vel[:, 2]).square()
    return {
        "tracking_lin_vel": torch.exp(-lin_vel_error / TRACKING_WIDTH),
        "tracking_ang_vel": torch.exp(-ang_vel_error / TRACKING_WIDTH),
        "lin_vel_z": body.lin_vel[:, 2].square(),
        "base_height": (body.height - TARGET_HEIGHT).square(),
        "action_rate": (action - last_action).square().sum(1),
        "similar_to_default": body.joint_offset.abs().sum(1),
    }


def fallen(gravity: Tensor) -> Tensor:
    """Roll or pitch beyond the limit, from the direction of gravity in the body's frame."""
    roll = torch.atan2(-gravity[:, 1], -gravity[:, 2])
    pitch = torch.asin(gravity[:, 0].clamp(-1.0, 1.0))
    return (roll.abs() > MAX_TILT) | (pitch.abs() > MAX_TILT)


def actor_obs(body: Body, command: Tensor, action: Tensor) -> Tensor:
    command_scale = command.new_tensor((LIN_VEL_SCALE, LIN_VEL_SCALE, ANG_VEL_SCALE))
    return torch.cat(
        (
            body.ang_vel * ANG_VEL_SCALE,
            body.gravity,
            command * command_scale,
            body.joint_offset,
            body.joint_vel * JOINT_VEL_SCALE,
            action,
        ),
        1,
    )


class Go2Walk:
    """Follow a command (forward, sideways, turning speed), drawn between two vectors at the start and every few
    seconds."""

    action_limits = (ACTION_LIMIT,) * len(JOINTS)
    control_seconds, substeps, episode_seconds = 0.02, 2, 20.0
    # The example's: legs do not hit each other, and a robot that falls is reset before many of its parts touch the
    # ground.
    physics: dict[str, Any] = {"enable_self_collision": False, "tolerance": 1e-5, "max_collision_pairs": 20}
    camera_offset = (1.6, -1.6, 0.8)

    def __init__(
        self,
        command_low: tuple[float, float, float],
        command_high: tuple[float, float, float],
        *,
        privileged: bool,
        start: str,
    ):
        """`privileged`: the critic also sees the linear velocity (3) and of each foot height, slip and contact force
        (12). `start`: one of STARTS."""
        self._command_range, self._start = (command_low, command_high), STARTS[start]
        self._privileged = privileged
        self.obs = {"actor": 45, "critic": 60} if privileged else {"actor": 45}

    def add_to(self, scene: Any) -> None:
        import genesis as gs

        scene.add_entity(gs.morphs.Plane())
        self._robot = scene.add_entity(
            gs.morphs.URDF(file="urdf/go2/urdf/go2.urdf", pos=(0.0, 0.0, self._start.height), links_to_keep=FEET)
        )

    def built(self, num_envs: int, device: torch.device) -> None:
        robot = self._robot
        self._motors = [robot.get_joint(name).dofs_idx_local[0] for name in JOINTS]
        self._feet = [robot.get_link(name).idx_local for name in FEET]
        robot.set_dofs_kp([STIFFNESS] * len(JOINTS), self._motors)
        robot.set_dofs_kv([DAMPING] * len(JOINTS), self._motors)
        self._default = torch.tensor(DEFAULT_POSE, device=device)
        self._joints_off = torch.full_like(self._default, self._start.joints)
        self._speed_off = torch.full((2,), self._start.speed, device=device)
        self._all_the_way = torch.full((1,), self._start.way, device=device)
        self._down = torch.tensor((0.0, 0.0, -1.0), device=device).expand(num_envs, 3)
        self._low, self._high = (torch.tensor(bound, device=device) for bound in self._command_range)
        self._command = torch.zeros(num_envs, 3, device=device)
        self._action = torch.zeros(num_envs, len(JOINTS), device=device)
        self._last_action = self._action.clone()

    def reset(self, ids: Tensor, draw: Sampler) -> None:
        count = len(ids)
        pose = self._default + draw.uniform(-self._joints_off, self._joints_off, count)
        self._robot.set_dofs_position(pose, self._motors, envs_idx=ids)
        command = draw.uniform(self._low, self._high, count)
        way = draw.uniform(torch.zeros_like(self._all_the_way), self._all_the_way, count)
        velocity = way * command[:, :2] + draw.uniform(-self._speed_off, self._speed_off, count)
        self._robot.set_dofs_velocity(velocity, FORWARD_AND_SIDEWAYS, envs_idx=ids)
        self._command[ids] = command
        self._action[ids] = 0.0

    def act(self, action: Tensor) -> None:
        self._last_action, self._action = self._action, action
        # As in the example: a real robot executes what was decided a step ago.
        self._robot.control_dofs_position(self._default + ACTION_SCALE * self._last_action, self._motors)

    def outcome(self, elapsed: Tensor, draw: Sampler) -> Outcome:
        body = self._body()
        terms = reward_terms(body, self._command, self._action, self._last_action)
        weighted = {name: WEIGHTS[name] * self.control_seconds * term for name, term in terms.items()}
        # After the reward, which belongs to the old command; before the observation, on which the next action is based.
        due = (elapsed % round(RESAMPLE_SECONDS / self.control_seconds) == 0).nonzero()[:, 0]
        self._command[due] = draw.uniform(self._low, self._high, len(due))
        reward = torch.stack(tuple(weighted.values())).sum(0)
        return Outcome(self._observe(body), reward, fallen(body.gravity), weighted)

    def observe(self) -> Obs:
        return self._observe(self._body())

    def _observe(self, body: Body) -> Obs:
        actor = actor_obs(body, self._command, self._action)
        if not self._privileged:
            return {"actor": actor}
        return {"actor": actor, "critic": torch.cat((actor, body.lin_vel * LIN_VEL_SCALE, self._feet_obs()), 1)}

    def _feet_obs(self) -> Tensor:
        """Height, horizontal speed, contact force of each foot."""
        height = self._robot.get_links_pos(self._feet)[:, :, 2]
        slip = self._robot.get_links_vel(self._feet)[:, :, :2].norm(dim=2)
        force = self._robot.get_links_net_contact_force()[:, self._feet].norm(dim=2) / WEIGHT_NEWTON
        return torch.cat((height, slip, force), 1)

    def _body(self) -> Body:
        robot = self._robot
        quat = robot.get_quat()
        return Body(
            height=robot.get_pos()[:, 2],
            lin_vel=rotate_back(quat, robot.get_vel()),
            ang_vel=rotate_back(quat, robot.get_ang()),
            gravity=rotate_back(quat, self._down),
            joint_offset=robot.get_dofs_position(self._motors) - self._default,
            joint_vel=robot.get_dofs_velocity(self._motors),
        )

    def trial(self, simulate: Callable[[], None]) -> Tensor | None:
        return None

    def state_dict(self) -> dict[str, Tensor]:
        return {"command": self._command.clone(), "action": self._action.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._command, self._action = (state[name].to(self._default.device).clone() for name in ("command", "action"))

    def focus(self) -> Tensor:
        return self._robot.get_pos()[0]


def walk_easy(start: str = "moving") -> Go2Walk:
    """Straight ahead at half a metre a second."""
    return Go2Walk((0.5, 0.0, 0.0), (0.5, 0.0, 0.0), privileged=False, start=start)


def walk(start: str = "moving") -> Go2Walk:
    """Any direction."""
    return Go2Walk((-1.0, -0.5, -1.0), (1.0, 0.5, 1.0), privileged=True, start=start)
