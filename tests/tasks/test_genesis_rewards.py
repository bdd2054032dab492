"""The Genesis tasks' rewards, terminations and geometry against values computed by hand. Needs no Genesis."""

from __future__ import annotations

import math

import pytest
import torch

from flashsac.tasks.genesis import go2, panda
from flashsac.tasks.genesis.task import Sampler, rotate, rotate_back


def body(**changes):
    still = dict(
        height=torch.tensor([0.3]),
        lin_vel=torch.zeros(1, 3),
        ang_vel=torch.zeros(1, 3),
        gravity=torch.tensor([[0.0, 0.0, -1.0]]),
        joint_offset=torch.zeros(1, 12),
        joint_vel=torch.zeros(1, 12),
    )
    return go2.Body(**still | changes)


@pytest.mark.parametrize(
    ("changes", "term", "value"),
    [
        ({}, "tracking_lin_vel", math.exp(-0.25 / 0.25)),  # half a metre a second too slow
        ({"lin_vel": torch.tensor([[0.5, 0.0, 0.0]])}, "tracking_lin_vel", 1.0),
        ({"lin_vel": torch.tensor([[0.5, 0.3, 9.0]])}, "tracking_lin_vel", math.exp(-0.09 / 0.25)),
        ({"ang_vel": torch.tensor([[7.0, 7.0, 0.5]])}, "tracking_ang_vel", math.exp(-0.25 / 0.25)),
        ({"lin_vel": torch.tensor([[0.0, 0.0, -0.4]])}, "lin_vel_z", 0.16),
        ({"height": torch.tensor([0.2])}, "base_height", 0.01),
        ({"joint_offset": torch.full((1, 12), -0.1)}, "similar_to_default", 1.2),
    ],
)
def test_walking_terms(changes, term, value):
    action = torch.zeros(1, 12)
    terms = go2.reward_terms(body(**changes), torch.tensor([[0.5, 0.0, 0.0]]), action, action)
    assert terms[term].item() == pytest.approx(value, rel=1e-5)
    assert set(terms) == set(go2.WEIGHTS)


def test_action_rate():
    terms = go2.reward_terms(body(), torch.zeros(1, 3), torch.full((1, 12), 0.5), torch.full((1, 12), -0.5))
    assert terms["action_rate"].item() == pytest.approx(12.0)


def test_a_perfect_episode_returns_what_the_paper_divides_by():
    best = sum(weight for weight in go2.WEIGHTS.values() if weight > 0) * go2.Go2Walk.episode_seconds
    assert best == pytest.approx(24.0)


@pytest.mark.parametrize(("roll", "pitch", "down"), [(9, 0, False), (11, 0, True), (0, -9, False), (0, -11, True)])
def test_fallen(roll, pitch, down):
    roll, pitch = math.radians(roll), math.radians(pitch)
    gravity = [math.sin(pitch), -math.sin(roll) * math.cos(pitch), -math.cos(roll) * math.cos(pitch)]
    assert go2.fallen(torch.tensor([gravity])).item() is down


def test_fallen_on_the_back():
    assert go2.fallen(torch.tensor([[0.0, 0.0, 1.0]])).item()


def test_order_and_scale_of_the_observation():
    state = body(
        ang_vel=torch.full((1, 3), 4.0), joint_offset=torch.full((1, 12), 3.0), joint_vel=torch.full((1, 12), 20.0)
    )
    obs = go2.actor_obs(state, torch.tensor([[0.5, 1.0, 4.0]]), torch.full((1, 12), 5.0))
    expected = [1.0] * 3 + [0.0, 0.0, -1.0] + [1.0, 2.0, 1.0] + [3.0] * 12 + [1.0] * 12 + [5.0] * 12
    assert obs[0].tolist() == pytest.approx(expected)


def pose(x: float = 0.0, quat: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)):
    return torch.tensor([[x, 0.0, 0.0]]), torch.tensor([quat])


@pytest.mark.parametrize(
    ("hand", "value"),
    [
        (pose(), 1.0),
        (pose(0.1), math.exp(-7 * 0.1)),
        (pose(quat=(0.0, 0.0, 0.0, 1.0)), math.exp(-4 * 1.0)),  # half a turn about z: four keypoints a metre away
        (pose(quat=(-1.0, 0.0, 0.0, 0.0)), 1.0),  # the same orientation
    ],
)
def test_keypoint_reward(hand, value):
    assert panda.keypoint_reward(hand, pose()).item() == pytest.approx(value, rel=1e-4)


def test_a_box_points_down_and_is_turned():
    yaw = math.pi / 3
    quat = panda.pointing_down(torch.tensor([yaw]))
    assert rotate(quat, torch.tensor([[0.0, 0.0, 1.0]]))[0].tolist() == pytest.approx([0, 0, -1], abs=1e-6)
    along = rotate(quat, torch.tensor([[1.0, 0.0, 0.0]]))[0].tolist()
    assert along == pytest.approx([math.cos(yaw), math.sin(yaw), 0], abs=1e-6)


def test_one_sign_for_every_orientation():
    quat = torch.tensor([[0.1, -0.9, 0.2, 0.3], [0.1, 0.9, 0.2, 0.3]])
    assert torch.equal(panda.same_sign(quat), torch.stack((-quat[0], quat[1])))


def test_joint_step_moves_the_hand_as_told():
    jacobian = torch.randn(3, 6, 9, generator=torch.Generator().manual_seed(0))
    twist = torch.tensor([[0.01, 0.0, -0.01, 0.02, 0.0, 0.0]]).expand(3, 6)
    moved = (jacobian @ panda.joint_step(jacobian, twist)[:, :, None])[:, :, 0]
    assert (moved - twist).abs().max() < 1e-3


def test_rotations():
    quarter = torch.tensor([[math.cos(math.pi / 4), 0.0, 0.0, math.sin(math.pi / 4)]])
    x = torch.tensor([[1.0, 0.0, 0.0]])
    assert rotate(quarter, x)[0].tolist() == pytest.approx([0, 1, 0], abs=1e-6)
    assert rotate_back(quarter, rotate(quarter, x))[0].tolist() == pytest.approx([1, 0, 0], abs=1e-6)


def test_sampler():
    draw = Sampler(torch.device("cpu"))
    low, high = torch.tensor([0.0, 5.0]), torch.tensor([1.0, 5.0])
    draw.generator.manual_seed(0)
    first = draw.uniform(low, high, 100)
    draw.generator.manual_seed(0)
    assert torch.equal(first, draw.uniform(low, high, 100))
    assert first[:, 0].min() >= 0
    assert first[:, 0].max() <= 1
    assert (first[:, 1] == 5).all()
    assert first[:, 0].std() > 0.2
