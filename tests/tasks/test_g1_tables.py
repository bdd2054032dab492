"""What the G1 task is made of, as the paper has it, and the page that shows it. Needs no simulator."""

from __future__ import annotations

import pytest

from flashsac.robots.g1 import G1, HEIGHT_MAP, PRIVILEGED
from flashsac.tasks.g1.terrain import TERRAIN
from tests.helpers import from_file


def test_the_page_shows_the_code():
    script = from_file("scripts/update_g1_docs.py")
    page = script.FILE.read_text()
    assert page == script.render(page), "run python scripts/update_g1_docs.py"
    assert "| `feet_lateral_distance` | `max(0.3 - d_lateral, 0)` | -5 | -2 |" in page
    assert "| `linear_velocity` | 3 | ±0.1 | critic |" in page


def test_sizes():
    assert G1.obs_dim == 96
    assert HEIGHT_MAP == (17, 11)
    assert sum(term.size for term in PRIVILEGED) == 3 + 2 + 17 * 11
    assert (G1.policy_hz, G1.motor_hz) == (50, 200)


def test_noise_is_the_papers():
    noise = {term.name: term.noise for term in (*G1.observation, *PRIVILEGED)}
    assert noise == {
        "angular_velocity": 0.2,
        "gravity": 0.05,
        "command": 0,
        "joint_position": 0.01,
        "joint_velocity": 1.5,
        "last_action": 0,
        "linear_velocity": 0.1,
        "foot_contact": 0,
        "height_map": 0,
    }


def test_gains_follow_from_the_motors():
    """The table's rule: ten hertz, damped twice critically, so damping is stiffness · 4 / (2π·10)."""
    for joint in G1.joints:
        assert joint.damping == pytest.approx(joint.stiffness * 4 / 62.83, rel=2e-3), joint.name


def test_left_and_right_are_alike():
    by_name = {joint.name: joint for joint in G1.joints}
    assert len(by_name) == 29
    for name, left in by_name.items():
        if name.startswith("left_"):
            right = by_name[name.replace("left_", "right_")]
            assert (left.stiffness, left.damping) == (right.stiffness, right.damping)
            assert right.default == (-left.default if "roll" in name or "yaw" in name else left.default)


def test_levels():
    heights = [TERRAIN.difficulty(level) * TERRAIN.stairs_height for level in range(TERRAIN.levels)]
    assert len(heights) == 10
    assert heights[0] == pytest.approx(0.023)
    assert heights[9] == pytest.approx(0.23)
