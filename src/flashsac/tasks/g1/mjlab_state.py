"""mjlab's side of rewards and observations: reads the simulator, leaves what it means to `rewards`. It needs mjlab."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from mjlab.utils.lab_api.math import quat_apply_inverse, yaw_quat
from torch import Tensor

from flashsac.tasks.g1.rewards import BY_NAME, TOUCHING, State

FEET = ("left_foot", "right_foot")
"""mjlab's sites at the soles."""
FEET_SENSOR, BODIES_SENSOR, TORSO_SENSOR, MAP_SENSOR = "feet_contact", "body_contact", "torso_contact", "height_map"
COMMAND = "twist"


class RewardTerm:
    """One row of the reward table, as mjlab wants it."""

    def __init__(self, cfg: Any, env: Any):
        self._function = BY_NAME[cfg.params["reward"]].function
        self._reader = _readers.setdefault(env, _Reader(env))

    def __call__(self, env: Any, reward: str, **parameters: float) -> Tensor:
        """The parameters are read at every step, so that mjlab's command line and curricula can change them."""
        return self._function(self._reader.read(env), **parameters)

    def reset(self, env_ids: Tensor | slice | None) -> None:
        self._reader.forget(env_ids)


def foot_contact(env: Any) -> Tensor:
    """1 where a foot carries load."""
    return (env.scene[FEET_SENSOR].data.force.norm(dim=2) > TOUCHING).float()


class _Reader:
    """A reader of an environment's state, once a step for all terms."""

    def __init__(self, env: Any):
        robot = env.scene["robot"]
        self._feet, _ = robot.find_sites(FEET, preserve_order=True)
        (self._torso,), _ = robot.find_bodies("torso_link")
        self._foot_velocity = torch.zeros(env.num_envs, 2, 3, device=env.device)
        self._step: int | None = None
        self._state: State | None = None

    def read(self, env: Any) -> State:
        if self._state is None or self._step != env.common_step_counter:
            self._step, self._state = env.common_step_counter, self._build(env)
            self._foot_velocity = self._state.foot_velocity.clone()
        return self._state

    def forget(self, env_ids: Tensor | slice | None) -> None:
        """New episodes begin with feet that move neither up nor down."""
        self._state = None
        self._foot_velocity[slice(None) if env_ids is None else env_ids] = 0.0

    def _build(self, env: Any) -> State:
        robot, feet, actions = env.scene["robot"].data, env.scene[FEET_SENSOR].data, env.action_manager
        base, heading = robot.root_link_quat_w, yaw_quat(robot.root_link_quat_w)
        soles = robot.site_pos_w[:, self._feet] - robot.root_link_pos_w[:, None]
        low, high = robot.soft_joint_pos_limits.unbind(-1)
        return State(
            command=env.command_manager.get_command(COMMAND),
            velocity=quat_apply_inverse(heading, robot.root_link_lin_vel_w),
            spin=quat_apply_inverse(heading, robot.root_link_ang_vel_w),
            gravity=robot.projected_gravity_b,
            torso_gravity=quat_apply_inverse(robot.body_link_quat_w[:, self._torso], robot.gravity_vec_w),
            joint_position=robot.joint_pos,
            joint_velocity=robot.joint_vel,
            joint_acceleration=robot.joint_acc,
            torque=robot.qfrc_actuator,
            joint_default=robot.default_joint_pos,
            joint_low=low,
            joint_high=high,
            action=actions.action,
            last_action=actions.prev_action,
            foot_velocity=robot.site_lin_vel_w[:, self._feet],
            foot_velocity_before=self._foot_velocity,
            foot_spin=robot.site_ang_vel_w[:, self._feet],
            foot_force=feet.force,
            foot_side=quat_apply_inverse(base[:, None].expand(-1, 2, -1), soles)[..., 1],
            air_time=feet.current_air_time,
            contact_time=feet.current_contact_time,
            last_air_time=feet.last_air_time,
            last_contact_time=feet.last_contact_time,
            body_force=env.scene[BODIES_SENSOR].data.force,
            terminated=env.termination_manager.terminated,
        )


_readers: WeakKeyDictionary[Any, _Reader] = WeakKeyDictionary()
"""The reader of each environment. It does not hold on to its environment, which can be thrown away."""
