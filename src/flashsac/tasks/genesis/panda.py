"""Grasping a box with the Franka Panda on Genesis, after the manipulation example known from its documentation.

14 observations: grasp point minus box (3), hand orientation (4), box position (3), box orientation (4). 6 actions: how
far the hand moves and turns in this step. The reward only asks the hand to be where it could grasp. When the time is
up, the fingers close and the hand goes up. The episode is a success if the box comes with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from flashsac.tasks.genesis.task import Outcome, Sampler, rotate
from flashsac.types import Obs

HOME = (0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785)
STIFFNESS = (4500.0, 4500.0, 3500.0, 3500.0, 2000.0, 2000.0, 2000.0, 100.0, 100.0)
FORCE = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0, 100.0, 100.0)
FINGERS_OPEN, FINGERS_CLOSED = 0.04, 0.0
GRASP_POINT = (0.0, 0.0, 0.1034)
"""Between the finger pads, in the hand's frame."""

BOX = (0.04, 0.04, 0.06)
BOX_LOW, BOX_HIGH = (0.35, -0.25, -math.pi / 4), (0.65, 0.25, math.pi / 4)
"""Range of the box: x, y and its turn."""

MAX_MOVE, MAX_TURN = 0.01, 0.05
"""Metres and radians in a control step: 1 m/s, 5 rad/s."""
MAX_LEAD = 0.1
"""Radians that a joint's target may run ahead of the joint, so that pushing against the table does not build up."""
DAMPING = 0.05
"""Damping of the inverse kinematics: it keeps steps small near stretched-out poses."""

KEYPOINT_DISTANCE = 0.5
"""Distance of the keypoints from the grasp point, in metres. The longer it is, the more does orientation count."""

CLOSE_STEPS, LIFT_STEPS, LIFT_SPEED = 25, 40, 0.004
LIFTED = 0.08
"""Metres that the box must have risen."""


def keypoints(position: Tensor, quat: Tensor) -> Tensor:
    """The middle of a body and six points around it, along its axes: (envs, 7, 3)."""
    axes = torch.eye(3, device=position.device)
    offsets = KEYPOINT_DISTANCE * torch.cat((torch.zeros_like(axes[:1]), axes, -axes))
    return position[:, None] + rotate(quat[:, None], offsets[None])


def keypoint_reward(hand: tuple[Tensor, Tensor], box: tuple[Tensor, Tensor]) -> Tensor:
    """1 where position and orientation are the same, less with the distances between all keypoints."""
    distances = (keypoints(*hand) - keypoints(*box)).norm(dim=2)
    return torch.exp(-distances.sum(1))


def pointing_down(yaw: Tensor) -> Tensor:
    """Orientations with z down, as a hand that grasps from above has, turned about the vertical."""
    zero = torch.zeros_like(yaw)
    return torch.stack((zero, torch.cos(yaw / 2), torch.sin(yaw / 2), zero), 1)


def same_sign(quat: Tensor) -> Tensor:
    """q and -q are the same orientation. The one with positive x, which a hand that points down is far from leaving."""
    return torch.where(quat[:, 1:2] < 0, -quat, quat)


def joint_step(jacobian: Tensor, twist: Tensor) -> Tensor:
    """Damped least squares: joint angles that move the hand by `twist` (metres, radians; in the world's frame)."""
    damped = jacobian @ jacobian.mT + DAMPING**2 * torch.eye(6, device=jacobian.device)
    return (jacobian.mT @ torch.linalg.solve(damped, twist[:, :, None]))[:, :, 0]


class PandaGrasp:
    """The box stands somewhere in front of the arm, free to be pushed over."""

    obs = {"actor": 14}
    action_limits: tuple[float, ...] = (MAX_MOVE,) * 3 + (MAX_TURN,) * 3
    control_seconds, substeps, episode_seconds = 0.01, 2, 3.0
    physics: dict[str, Any] = {}
    camera_offset = (1.1, -1.1, 0.7)

    def add_to(self, scene: Any) -> None:
        import genesis as gs

        scene.add_entity(gs.morphs.Plane())
        self._arm = scene.add_entity(gs.morphs.MJCF(file="xml/franka_emika_panda/panda.xml"))
        self._box = scene.add_entity(
            gs.morphs.Box(size=BOX, pos=(BOX_LOW[0], 0.0, BOX[2] / 2)),
            surface=gs.surfaces.Rough(color=(0.8, 0.1, 0.1)),
        )

    def built(self, num_envs: int, device: torch.device) -> None:
        self._hand = self._arm.get_link("hand")
        self._arm.set_dofs_kp(STIFFNESS)
        self._arm.set_dofs_kv([stiffness / 10 for stiffness in STIFFNESS])
        self._arm.set_dofs_force_range([-force for force in FORCE], FORCE)
        self._lowest, self._highest = self._arm.get_dofs_limit()
        self._home = torch.tensor((*HOME, FINGERS_OPEN, FINGERS_OPEN), device=device)
        self._grasp_point = torch.tensor(GRASP_POINT, device=device)
        self._low, self._high = torch.tensor(BOX_LOW, device=device), torch.tensor(BOX_HIGH, device=device)
        self._target = self._home.repeat(num_envs, 1)

    def reset(self, ids: Tensor, draw: Sampler) -> None:
        self._target[ids] = self._home
        self._arm.set_qpos(self._target[ids], envs_idx=ids)
        place = draw.uniform(self._low, self._high, len(ids))
        height = torch.full_like(place[:, :1], BOX[2] / 2)
        self._box.set_pos(torch.cat((place[:, :2], height), 1), envs_idx=ids)
        self._box.set_quat(pointing_down(place[:, 2]), envs_idx=ids)

    def act(self, action: Tensor) -> None:
        self._move(action, FINGERS_OPEN)

    def _move(self, twist: Tensor, fingers: float) -> None:
        """Targets are counted from the last targets, not from where the arm is: else it would sink under its weight."""
        joints = self._arm.get_dofs_position()
        wanted = self._target + joint_step(self._arm.get_jacobian(self._hand, self._grasp_point), twist)
        wanted = wanted.clamp(joints - MAX_LEAD, joints + MAX_LEAD).clamp(self._lowest, self._highest)
        wanted[:, -2:] = fingers
        # With the speed as a target too the arm follows at once; the position alone would make it lag by 0.1 s.
        self._arm.control_dofs_position_velocity(wanted, (wanted - self._target) / self.control_seconds)
        self._target = wanted

    def outcome(self, elapsed: Tensor, draw: Sampler) -> Outcome:
        reward = self.control_seconds * keypoint_reward(self._hand_pose(), self._box_pose())
        never = torch.zeros_like(reward, dtype=torch.bool)
        return Outcome(self.observe(), reward, never, {"success": never.cpu()})

    def observe(self) -> Obs:
        hand, box = self._hand_pose(), self._box_pose()
        return {"actor": torch.cat((hand[0] - box[0], same_sign(hand[1]), box[0], same_sign(box[1])), 1)}

    def _hand_pose(self) -> tuple[Tensor, Tensor]:
        """The pose of the grasp point."""
        quat = self._hand.get_quat()
        return self._hand.get_pos() + rotate(quat, self._grasp_point.expand(len(quat), 3)), quat

    def _box_pose(self) -> tuple[Tensor, Tensor]:
        return self._box.get_pos(), self._box.get_quat()

    def trial(self, simulate: Callable[[], None]) -> Tensor | None:
        twist = torch.zeros(len(self._target), 6, device=self._target.device)
        for step in range(CLOSE_STEPS + LIFT_STEPS):
            twist[:, 2] = 0.0 if step < CLOSE_STEPS else LIFT_SPEED
            self._move(twist, FINGERS_CLOSED)
            simulate()
        return self._box.get_pos()[:, 2] > BOX[2] / 2 + LIFTED

    def state_dict(self) -> dict[str, Tensor]:
        return {"target": self._target.clone()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self._target = state["target"].to(self._home.device).clone()

    def focus(self) -> Tensor:
        return self._target.new_tensor((0.35, 0.0, 0.3))
