"""The G1's rewards (the paper's tables "Reward Configurations" and "Notation"): plain functions of tensors, one weight
a column.

Every function takes a `State` of N robots and returns N values; weights, and the sign of penalties, are in `REWARDS`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from flashsac.robots.g1 import JOINTS

Column = Literal["flashsac", "ppo"]

TOUCHING = 1.0
"""Newtons above which a body counts as touched."""
STOPPED = 0.1
"""Length of a command that means stop."""
IN_PLACE = 0.25
"""Length of a command that is obeyed without stepping."""
SWING_TARGET = 0.4
"""Seconds in the air that a foot should reach."""
VARIANCE_CAP = 0.5
"""Longest phase that the variance counts, in seconds. The cap is ours, after the Spot task of Isaac Lab. Without it, a
robot that stood for ten seconds would pay fifty times an alive bonus for its first step."""


class State(NamedTuple):
    """What the rewards look at. SI units; N robots, J joints, two feet (left, right), B other bodies that can be
    touched."""

    command: Tensor
    """(N, 3): velocity ahead, velocity to the left, turning rate."""
    velocity: Tensor
    """(N, 3): of the base, in the frame that turns with its heading but never tilts."""
    spin: Tensor
    """(N, 3): angular velocity of the base, in the same frame."""
    gravity: Tensor
    """(N, 3): the direction of gravity in the base's frame; (0, 0, -1) when upright."""
    torso_gravity: Tensor
    """(N, 3): the same in the torso's frame."""
    joint_position: Tensor
    """(N, J)"""
    joint_velocity: Tensor
    joint_acceleration: Tensor
    torque: Tensor
    joint_default: Tensor
    """(N, J) or (J): the default pose."""
    joint_low: Tensor
    """(N, J) or (J): soft limits."""
    joint_high: Tensor
    action: Tensor
    """(N, J)"""
    last_action: Tensor
    foot_velocity: Tensor
    """(N, 2, 3), world frame."""
    foot_velocity_before: Tensor
    """One step of the policy ago."""
    foot_spin: Tensor
    """(N, 2, 3), world frame."""
    foot_force: Tensor
    """(N, 2, 3), world frame."""
    foot_side: Tensor
    """(N, 2): how far to the left of the base, in the base's frame."""
    air_time: Tensor
    """(N, 2): seconds since the foot left the ground; 0 on the ground."""
    contact_time: Tensor
    """(N, 2): seconds since it touched the ground; 0 in the air."""
    last_air_time: Tensor
    """(N, 2): how long its last whole swing took."""
    last_contact_time: Tensor
    body_force: Tensor
    """(N, B, 3): on everything but the ankles."""
    terminated: Tensor
    """(N): the episode ends here, and not by its time limit."""

    @property
    def touching(self) -> Tensor:
        """(N, 2): which feet carry load."""
        return self.foot_force.norm(dim=2) > TOUCHING


def _square(x: Tensor) -> Tensor:
    return x.square().sum(dim=1)


# Task


def track_linear_velocity(s: State, sigma: float) -> Tensor:
    return torch.exp(-_square(s.command[:, :2] - s.velocity[:, :2]) / sigma**2)


def track_angular_velocity(s: State, sigma: float) -> Tensor:
    return torch.exp(-(s.command[:, 2] - s.spin[:, 2]).square() / sigma**2)


def orthogonal_velocity(s: State) -> Tensor:
    """Reward for no velocity orthogonal to the command. If the command only turns or stops, all velocity is
    orthogonal."""
    velocity, wanted = s.velocity[:, :2], s.command[:, :2]
    direction = wanted / wanted.norm(dim=1, keepdim=True).clamp(min=1e-6)
    along = (velocity * direction).sum(dim=1, keepdim=True) * direction
    stop = s.command.norm(dim=1, keepdim=True) < STOPPED
    return torch.exp(-1.5 * _square(torch.where(stop, velocity, velocity - along)))


# Style


def feet_air_time(s: State) -> Tensor:
    """The paper names targets and modes; the blend is ours.

    Walking, a foot earns the time of its phase until the phase reaches its target, and nothing after that. In place, it
    earns time on the ground and pays for time in the air.
    """
    speed = s.command.norm(dim=1, keepdim=True)
    stance_target = (0.5 / speed.clamp(min=1e-6)).clamp(0.1, 0.5)
    swinging = s.air_time > 0
    phase = torch.where(swinging, s.air_time, s.contact_time)
    target = torch.where(swinging, SWING_TARGET, stance_target)
    walking = torch.where(phase < target, phase, 0.0)
    standing = torch.minimum((s.contact_time - s.air_time).clamp(min=-SWING_TARGET), stance_target)
    return torch.where(speed < IN_PLACE, standing, walking).sum(dim=1)


def feet_slide(s: State) -> Tensor:
    return (s.foot_velocity[..., :2].norm(dim=2) * s.touching).sum(dim=1)


def feet_yaw_drag(s: State) -> Tensor:
    return (s.foot_spin[..., 2].abs() * s.touching).sum(dim=1)


def feet_force(s: State) -> Tensor:
    return (s.foot_force[..., 2].norm(dim=1) - 700.0).clamp(0.0, 400.0)


def feet_lateral_distance(s: State) -> Tensor:
    return (0.3 - (s.foot_side[:, 0] - s.foot_side[:, 1]).abs()).clamp(min=0.0)


def feet_stumble(s: State) -> Tensor:
    """A foot, either one, is held by something steep."""
    return (s.foot_force[..., :2].norm(dim=2) > 5.0 * s.foot_force[..., 2].abs()).any(dim=1).float()


def air_time_variance(s: State) -> Tensor:
    return s.last_air_time.clamp(max=VARIANCE_CAP).var(dim=1) + s.last_contact_time.clamp(max=VARIANCE_CAP).var(dim=1)


def impact_velocity_delta(s: State) -> Tensor:
    return (s.foot_velocity[..., 2] - s.foot_velocity_before[..., 2]).square().clamp(max=1.0).sum(dim=1)


# Regularization


def linear_velocity_z(s: State) -> Tensor:
    return s.velocity[:, 2].square()


def angular_velocity_xy(s: State) -> Tensor:
    return _square(s.spin[:, :2])


def energy(s: State) -> Tensor:
    return (s.torque * s.joint_velocity).norm(dim=1)


def joint_acceleration(s: State) -> Tensor:
    return _square(s.joint_acceleration)


def action_rate(s: State) -> Tensor:
    return _square(s.action - s.last_action)


def flat_orientation(s: State) -> Tensor:
    return _square(s.gravity[:, :2])


def body_orientation(s: State) -> Tensor:
    return _square(s.torso_gravity[:, :2])


def joint_deviation(s: State, joints: tuple[int, ...]) -> Tensor:
    return (s.joint_position - s.joint_default)[:, list(joints)].abs().sum(dim=1)


def joint_position_limits(s: State) -> Tensor:
    above, below = s.joint_position - s.joint_high, s.joint_low - s.joint_position
    return (above.clamp(min=0.0) + below.clamp(min=0.0)).sum(dim=1)


def stand_still(s: State) -> Tensor:
    return _square(s.joint_position - s.joint_default) * (s.command.norm(dim=1) < STOPPED)


# Safety and termination


def undesired_contacts(s: State) -> Tensor:
    return (s.body_force.norm(dim=2) > TOUCHING).sum(dim=1).float()


def fly(s: State) -> Tensor:
    return (~s.touching.any(dim=1)).float()


def termination(s: State) -> Tensor:
    return s.terminated.float()


def alive(s: State) -> Tensor:
    return (~s.terminated).float()


def joints_named(pattern: str) -> tuple[int, ...]:
    """Numbers of the joints whose name contains the pattern."""
    return tuple(i for i, joint in enumerate(JOINTS) if re.search(pattern, joint.name))


# The paper does not say which joint is in which group, and leaves the waist and the elbows to the reader. This is the
# division of Legged Lab, whose weights the PPO column has.
LEGS = joints_named("hip_pitch|knee|ankle")
HIPS = joints_named("hip_yaw|hip_roll|shoulder_pitch|elbow")
ARMS = joints_named("waist|shoulder_roll|shoulder_yaw|wrist")


@dataclasses.dataclass(frozen=True)
class Reward:
    """A row of the table."""

    name: str
    function: Callable[..., Tensor]
    formula: str
    flashsac: float | None
    """Weight when FlashSAC trains; None where the paper has a dash."""
    ppo: float | None
    sigma: tuple[float, float] | None = None
    """The function's parameter of that name, for FlashSAC and for PPO."""

    def weight(self, column: Column) -> float | None:
        return self.flashsac if column == "flashsac" else self.ppo

    def parameters(self, column: Column) -> dict[str, float]:
        return {} if self.sigma is None else {"sigma": self.sigma[column == "ppo"]}


REWARDS = (
    Reward("track_linear_velocity", track_linear_velocity, "exp(-‖v_xy_cmd - v_xy‖² / σ²)", 2.0, 1.5, (0.25, 0.5)),
    Reward("track_angular_velocity", track_angular_velocity, "exp(-(ω_z_cmd - ω_z)² / σ²)", 1.5, 1.5, (0.25, 0.5)),
    Reward("orthogonal_velocity", orthogonal_velocity, "exp(-1.5 ‖v_⊥‖²)", 1.0, 1.0),
    Reward("feet_air_time", feet_air_time, "r_airtime(t_swing, t_stance, ‖c‖)", 1.0, 0.25),
    Reward("feet_slide", feet_slide, "Σ ‖v_xy_foot‖ · 1[touching]", -0.25, -0.25),
    Reward("feet_yaw_drag", feet_yaw_drag, "Σ abs(ω_z_foot) · 1[touching]", -0.5, -0.25),
    Reward("feet_force", feet_force, "clamp(‖f_z_feet‖ - 700, 0, 400)", -3e-3, -3e-3),
    Reward("feet_lateral_distance", feet_lateral_distance, "max(0.3 - d_lateral, 0)", -5.0, -2.0),
    Reward("feet_stumble", feet_stumble, "1[‖f_xy_foot‖ > 5 abs(f_z_foot)]", -2.0, -2.0),
    Reward("air_time_variance", air_time_variance, "Var[t_air] + Var[t_contact]", -1.0, -1.0),
    Reward("impact_velocity_delta", impact_velocity_delta, "Σ min(Δv_z_foot², 1)", -5.0, -5.0),
    Reward("linear_velocity_z", linear_velocity_z, "v_z²", -0.25, -0.25),
    Reward("angular_velocity_xy", angular_velocity_xy, "‖ω_xy‖²", -1.0, -0.05),
    Reward("energy", energy, "‖τ ⊙ q̇‖", -1e-3, -1e-3),
    Reward("joint_acceleration", joint_acceleration, "‖q̈‖²", -2.5e-7, -2.5e-7),
    Reward("action_rate", action_rate, "‖a_t - a_t-1‖²", -0.5, -0.01),
    Reward("flat_orientation", flat_orientation, "‖g_xy_base‖²", -5.0, -1.0),
    Reward("body_orientation", body_orientation, "‖g_xy_torso‖²", -52.0, -2.0),
    Reward("joint_deviation_legs", partial(joint_deviation, joints=LEGS), "‖q - q_0‖₁, legs", -0.25, -0.02),
    Reward("joint_deviation_hips", partial(joint_deviation, joints=HIPS), "‖q - q_0‖₁, hips", -0.5, -0.15),
    Reward("joint_deviation_arms", partial(joint_deviation, joints=ARMS), "‖q - q_0‖₁, arms", -1.0, -0.2),
    Reward("joint_position_limits", joint_position_limits, "Σ max(q - q_max, 0) + max(q_min - q, 0)", -5.0, -2.0),
    Reward("stand_still", stand_still, "‖q - q_0‖² · 1[‖c‖ < 0.1]", -5.0, -0.25),
    Reward("undesired_contacts", undesired_contacts, "Σ 1[‖f_i‖ > 1], not the ankles", -5.0, -1.0),
    Reward("fly", fly, "1[no ankle touches]", -1.0, -1.0),
    Reward("termination", termination, "1[terminated, not timed out]", None, -200.0),
    Reward("alive", alive, "1[not terminated]", 1.0, None),
)
BY_NAME = {reward.name: reward for reward in REWARDS}
