"""The ground of the rough task, measured by rays from above."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("mjlab")

import mujoco
from mjlab.terrains.terrain_generator import TerrainGenerator

from flashsac.tasks.g1.mjlab_terrain import terrain_cfg

COLUMNS = ("stairs_down", "stairs_up", "grid", "uniform", "waves", "pit")


class Ground:
    """All tiles, compiled."""

    def __init__(self):
        cfg = terrain_cfg().terrain_generator
        cfg.seed = 0
        assert tuple(cfg.sub_terrains) == COLUMNS
        self.generator = TerrainGenerator(cfg)
        spec = mujoco.MjSpec()
        self.generator.compile(spec)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, self.data)

    def middle(self, kind, level):
        return (level + 0.5 - 5) * 8.0, (COLUMNS.index(kind) + 0.5 - 3) * 8.0

    def height(self, kind, level, ahead=0.0, left=0.0):
        """Metres from a tile's middle."""
        x, y = self.middle(kind, level)
        hit = np.zeros(1, np.int32)
        start, down = np.array([x + ahead, y + left, 10.0]), np.array([0.0, 0.0, -1.0])
        return 10.0 - mujoco.mj_ray(self.model, self.data, start, down, None, 1, -1, hit)

    def heights(self, kind, level):
        """Along two lines outside of the platform, clear of the tile's border."""
        points = np.linspace(1.7, 3.4, 60)
        return np.array([self.height(kind, level, *xy) for d in points for xy in ((d, 0.3), (-0.7, -d))])


@pytest.fixture(scope="module")
def ground():
    return Ground()


@pytest.mark.parametrize("level", [0, 4, 9])
@pytest.mark.parametrize(("kind", "sign"), [("stairs_down", 1), ("stairs_up", -1)])
def test_stairs(ground, kind, sign, level):
    """Six times the step in the middle; 1.5 m from it five steps of 32 cm begin; then the border."""
    step = 0.23 * (level + 1) / 10
    for direction in ((1, 0), (-1, 0), (0, 1), (0, -1)):
        for distance, steps in (
            (0.0, 6),
            (1.49, 6),
            (1.51, 5),
            (1.81, 5),
            (1.83, 4),
            (2.3, 3),
            (2.6, 2),
            (2.9, 1),
            (3.5, 0),
        ):
            found = ground.height(kind, level, *(distance * part for part in direction))
            assert found == pytest.approx(sign * steps * step, abs=1e-6), (distance, direction)  # fmt: skip


@pytest.mark.parametrize("level", [0, 9])
def test_pit(ground, level):
    assert ground.height("pit", level) == pytest.approx(-0.3 * (level + 1) / 10)
    assert ground.height("pit", level, 1.49, -1.49) == pytest.approx(-0.3 * (level + 1) / 10)
    assert ground.height("pit", level, 1.51) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("level", [0, 9])
def test_grid(ground, level):
    bound, heights = 0.15 * (level + 1) / 10, ground.heights("grid", level)
    assert np.abs(heights).max() <= bound + 1e-6
    assert heights.max() > 0.6 * bound
    assert heights.min() < -0.6 * bound
    assert ground.height("grid", level, 0.9, 0.9) == pytest.approx(bound)  # the platform lies as high as a cell may


@pytest.mark.parametrize("level", [0, 9])
def test_uniform_is_the_same_on_every_level(ground, level):
    heights = ground.heights("uniform", level)
    assert -0.03 < heights.min() < -0.005
    assert 0.025 < heights.max() < 0.05
    assert ground.height("uniform", level, 0.9, -0.9) == pytest.approx(0.0, abs=2e-3)


@pytest.mark.parametrize("level", [0, 4, 9])
def test_waves(ground, level):
    amplitude, heights = 0.2 * (level + 1) / 10, ground.heights("waves", level)
    assert np.abs(heights).max() <= amplitude + 0.005
    assert np.ptp(heights) > amplitude
    assert ground.height("waves", level, 0.9, -0.9) == pytest.approx(0.0, abs=2e-3)


def test_robots_begin_on_the_ground(ground):
    origins = ground.generator.terrain_origins
    assert origins.shape == (10, 6, 3)
    for column, kind in enumerate(COLUMNS):
        for level in range(10):
            assert tuple(origins[level, column, :2]) == ground.middle(kind, level)
            for ahead, left in ((0.0, 0.0), (0.7, -0.7), (-0.7, 0.7)):
                height = ground.height(kind, level, ahead, left)
                assert height == pytest.approx(origins[level, column, 2], abs=3e-3), (kind, level)


def test_borders_meet(ground):
    """Nobody stumbles from one tile to the next."""
    for kind in COLUMNS:
        for edge in (3.95, -3.95):
            assert math.isclose(ground.height(kind, 5, edge, 0.0), 0.0, abs_tol=3e-3), kind
