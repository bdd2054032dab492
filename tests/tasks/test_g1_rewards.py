"""Every reward of the G1 against values computed by hand. Needs no simulator."""

from __future__ import annotations

import math

import pytest
import torch

from flashsac.robots.g1 import JOINTS
from flashsac.tasks.g1 import rewards
from flashsac.tasks.g1.rewards import ARMS, BY_NAME, HIPS, LEGS, REWARDS, State

J = len(JOINTS)


def vectors(*rows):
    """One robot's rows, or one row."""
    return torch.tensor([list(rows)], dtype=torch.float32)


def joints(value=0.0, **by_number):
    row = torch.full((1, J), float(value))
    for name, other in by_number.items():
        row[0, int(name[1:])] = other
    return row


def state(**changes) -> State:
    """One robot that stands as it should, both feet on the ground for a second, told to stop."""
    at_rest = dict(
        command=vectors(0.0, 0.0, 0.0),
        velocity=vectors(0.0, 0.0, 0.0),
        spin=vectors(0.0, 0.0, 0.0),
        gravity=vectors(0.0, 0.0, -1.0),
        torso_gravity=vectors(0.0, 0.0, -1.0),
        joint_position=torch.tensor([[joint.default for joint in JOINTS]]),
        joint_velocity=joints(),
        joint_acceleration=joints(),
        torque=joints(),
        joint_default=torch.tensor([joint.default for joint in JOINTS]),
        joint_low=torch.full((J,), -2.0),
        joint_high=torch.full((J,), 2.0),
        action=joints(),
        last_action=joints(),
        foot_velocity=torch.zeros(1, 2, 3),
        foot_velocity_before=torch.zeros(1, 2, 3),
        foot_spin=torch.zeros(1, 2, 3),
        foot_force=vectors([0.0, 0.0, 160.0], [0.0, 0.0, 160.0]),
        foot_side=vectors(0.15, -0.15),
        air_time=vectors(0.0, 0.0),
        contact_time=vectors(1.0, 1.0),
        last_air_time=vectors(0.0, 0.0),
        last_contact_time=vectors(0.0, 0.0),
        body_force=torch.zeros(1, 5, 3),
        terminated=torch.tensor([False]),
    )
    assert set(changes) <= set(at_rest)
    return State(**at_rest | changes)


def value(name, column="flashsac", **changes):
    reward = BY_NAME[name]
    result = reward.function(state(**changes), **reward.parameters(column))
    assert result.shape == (1,)
    assert result.dtype == torch.float32
    return result.item()


AIR = vectors([0.0, 0.0, 0.0], [0.0, 0.0, 160.0])
"""Forces while the left foot swings."""
AHEAD, FAST, TURN = vectors(1.0, 0.0, 0.0), vectors(2.0, 0.0, 0.0), vectors(0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "changes", "expected"),
    [
        ("track_linear_velocity", {}, 1.0),
        ("track_linear_velocity", {"command": vectors(0.3, 0.2, 9.0), "velocity": vectors(0.2, 0.0, 7.0)}, math.exp(-0.05 / 0.0625)),
        ("track_angular_velocity", {"command": vectors(9.0, 9.0, 0.5), "spin": vectors(7.0, 7.0, 0.3)}, math.exp(-0.04 / 0.0625)),
        # All of it counts where the command is to stop, or to turn on the spot.
        ("orthogonal_velocity", {"velocity": vectors(0.3, 0.4, 5.0)}, math.exp(-1.5 * 0.25)),
        ("orthogonal_velocity", {"command": vectors(0.05, 0.0, 0.0), "velocity": vectors(0.3, 0.4, 0.0)}, math.exp(-1.5 * 0.25)),
        ("orthogonal_velocity", {"command": TURN, "velocity": vectors(0.3, 0.4, 0.0)}, math.exp(-1.5 * 0.25)),
        ("orthogonal_velocity", {"command": AHEAD, "velocity": vectors(0.7, 0.2, 0.0)}, math.exp(-1.5 * 0.04)),
        # Across the diagonal: (1, 0) is 1/√2 along it and 1/√2 beside it.
        ("orthogonal_velocity", {"command": vectors(0.5, 0.5, 0.0), "velocity": vectors(1.0, 0.0, 0.0)}, math.exp(-1.5 * 0.5)),
        ("feet_air_time", {}, 1.0),  # stands: half a second a foot, and no more
        ("feet_air_time", {"contact_time": vectors(0.2, 0.3)}, 0.5),
        ("feet_air_time", {"air_time": vectors(0.9, 0.0), "contact_time": vectors(0.0, 1.0)}, -0.4 + 0.5),
        ("feet_air_time", {"command": AHEAD}, 0.0),  # walks: both feet should have moved long ago
        ("feet_air_time", {"command": AHEAD, "air_time": vectors(0.3, 0.0), "contact_time": vectors(0.0, 0.45)}, 0.75),
        ("feet_air_time", {"command": AHEAD, "air_time": vectors(0.41, 0.0), "contact_time": vectors(0.0, 0.45)}, 0.45),
        ("feet_air_time", {"command": FAST, "air_time": vectors(0.3, 0.0), "contact_time": vectors(0.0, 0.26)}, 0.3),
        ("feet_air_time", {"command": FAST, "air_time": vectors(0.3, 0.0), "contact_time": vectors(0.0, 0.24)}, 0.54),
        ("feet_slide", {"foot_velocity": vectors([0.3, 0.4, 9.0], [0.0, -0.1, 0.0])}, 0.6),
        ("feet_slide", {"foot_velocity": vectors([0.3, 0.4, 9.0], [0.0, -0.1, 0.0]), "foot_force": AIR}, 0.1),
        ("feet_yaw_drag", {"foot_spin": vectors([9.0, 9.0, -0.5], [0.0, 0.0, 0.2])}, 0.7),
        ("feet_yaw_drag", {"foot_spin": vectors([9.0, 9.0, -0.5], [0.0, 0.0, 0.2]), "foot_force": AIR}, 0.2),
        ("feet_force", {}, 0.0),
        ("feet_force", {"foot_force": vectors([0.0, 0.0, 600.0], [900.0, 0.0, 800.0])}, 300.0),
        ("feet_force", {"foot_force": vectors([0.0, 0.0, 0.0], [0.0, 0.0, 5000.0])}, 400.0),
        ("feet_lateral_distance", {}, 0.0),
        ("feet_lateral_distance", {"foot_side": vectors(0.05, -0.05)}, 0.2),
        ("feet_lateral_distance", {"foot_side": vectors(0.4, -0.4)}, 0.0),
        ("feet_stumble", {}, 0.0),
        ("feet_stumble", {"foot_force": vectors([0.0, 0.0, 100.0], [30.0, 41.0, -10.0])}, 1.0),
        ("feet_stumble", {"foot_force": vectors([0.0, 0.0, 100.0], [30.0, 39.0, -10.0])}, 0.0),
        ("air_time_variance", {"last_air_time": vectors(0.4, 0.2), "last_contact_time": vectors(0.1, 0.5)}, 0.02 + 0.08),
        ("air_time_variance", {"last_contact_time": vectors(9.0, 0.3)}, 0.02),
        ("impact_velocity_delta", {"foot_velocity": vectors([5.0, 5.0, -0.2], [0.0, 0.0, 0.0])}, 0.04),
        ("impact_velocity_delta", {"foot_velocity_before": vectors([0.0, 0.0, -3.0], [0.0, 0.0, 0.5])}, 1.25),
        ("linear_velocity_z", {"velocity": vectors(5.0, 5.0, -0.3)}, 0.09),
        ("angular_velocity_xy", {"spin": vectors(0.3, -0.4, 5.0)}, 0.25),
        ("energy", {"torque": joints(j0=3.0, j28=-2.0), "joint_velocity": joints(j0=1.0, j28=2.0)}, 5.0),
        ("joint_acceleration", {"joint_acceleration": joints(j3=30.0, j4=-40.0)}, 2500.0),
        ("action_rate", {"action": joints(0.5), "last_action": joints(-0.5)}, 29.0),
        ("flat_orientation", {"gravity": vectors(0.6, 0.0, -0.8)}, 0.36),
        ("body_orientation", {"torso_gravity": vectors(0.0, -0.6, -0.8)}, 0.36),
        ("joint_position_limits", {"joint_position": joints(j0=2.5, j1=-2.1)}, 0.6),
        ("stand_still", {"joint_position": state().joint_position + 0.1}, 0.29),
        ("stand_still", {"joint_position": state().joint_position + 0.1, "command": vectors(0.1, 0.1, 0.0)}, 0.0),
        ("undesired_contacts", {"body_force": torch.eye(5)[None, :, :3] * torch.tensor([0.9, 1.1, 7.0])}, 2.0),
        ("fly", {}, 0.0),
        ("fly", {"foot_force": AIR}, 0.0),
        ("fly", {"foot_force": torch.full((1, 2, 3), 0.5)}, 1.0),  # 0.87 N is no contact
        ("termination", {}, 0.0),
        ("termination", {"terminated": torch.tensor([True])}, 1.0),
        ("alive", {}, 1.0),
        ("alive", {"terminated": torch.tensor([True])}, 0.0),
    ],
)  # fmt: skip
def test_by_hand(name, changes, expected):
    assert value(name, **changes) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_ppo_has_wider_targets():
    changes = {"command": vectors(0.5, 0.0, 0.5)}
    for name in ("track_linear_velocity", "track_angular_velocity"):
        assert value(name, "flashsac", **changes) == pytest.approx(math.exp(-4.0), rel=1e-5)
        assert value(name, "ppo", **changes) == pytest.approx(math.exp(-1.0), rel=1e-5)


def test_joints_deviate_by_group():
    assert sorted((*LEGS, *HIPS, *ARMS)) == list(range(J))
    assert [len(group) for group in (LEGS, HIPS, ARMS)] == [8, 8, 13]
    assert "left_knee_joint" in {JOINTS[i].name for i in LEGS}
    assert "waist_yaw_joint" in {JOINTS[i].name for i in ARMS}
    moved = state().joint_position.clone()
    moved[0, LEGS[0]] += 0.1
    moved[0, HIPS[1]] -= 0.2
    moved[0, list(ARMS)] += 0.01
    found = [value(f"joint_deviation_{group}", joint_position=moved) for group in ("legs", "hips", "arms")]
    assert found == pytest.approx([0.1, 0.2, 0.13], rel=1e-4)


def test_many_robots_do_not_mix():
    one, other = state(), state(velocity=vectors(0.3, 0.4, 0.5), foot_force=torch.zeros(1, 2, 3))
    shared = {"joint_default", "joint_low", "joint_high"}
    both = State(**{
        field: getattr(one, field) if field in shared else torch.cat([getattr(one, field), getattr(other, field)])
        for field in State._fields
    })  # fmt: skip
    for reward in REWARDS:
        parameters = reward.parameters("flashsac")
        apart = torch.cat([reward.function(one, **parameters), reward.function(other, **parameters)])
        assert torch.allclose(reward.function(both, **parameters), apart), reward.name


def test_weights_are_the_papers():
    """The rows whose columns differ, and the ones with a dash; docs/g1-task.md shows them all."""
    differ = {r.name: (r.flashsac, r.ppo) for r in REWARDS if r.flashsac != r.ppo}
    assert differ == {
        "track_linear_velocity": (2.0, 1.5),
        "feet_air_time": (1.0, 0.25),
        "feet_yaw_drag": (-0.5, -0.25),
        "feet_lateral_distance": (-5.0, -2.0),
        "angular_velocity_xy": (-1.0, -0.05),
        "action_rate": (-0.5, -0.01),
        "flat_orientation": (-5.0, -1.0),
        "body_orientation": (-52.0, -2.0),
        "joint_deviation_legs": (-0.25, -0.02),
        "joint_deviation_hips": (-0.5, -0.15),
        "joint_deviation_arms": (-1.0, -0.2),
        "joint_position_limits": (-5.0, -2.0),
        "stand_still": (-5.0, -0.25),
        "undesired_contacts": (-5.0, -1.0),
        "termination": (None, -200.0),
        "alive": (1.0, None),
    }
    same = {r.name: r.flashsac for r in REWARDS if r.flashsac == r.ppo}
    assert same == {
        "track_angular_velocity": 1.5,
        "orthogonal_velocity": 1.0,
        "feet_slide": -0.25,
        "feet_force": -3e-3,
        "feet_stumble": -2.0,
        "air_time_variance": -1.0,
        "impact_velocity_delta": -5.0,
        "linear_velocity_z": -0.25,
        "energy": -1e-3,
        "joint_acceleration": -2.5e-7,
        "fly": -1.0,
    }
    assert rewards.BY_NAME["track_linear_velocity"].sigma == (0.25, 0.5)
