"""`Terrain` as tiles of mjlab's generator. It needs mjlab."""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from mjlab.terrains import (
    BoxInvertedPyramidStairsTerrainCfg,
    BoxPyramidStairsTerrainCfg,
    BoxRandomGridTerrainCfg,
    HfRandomUniformTerrainCfg,
    HfWaveTerrainCfg,
    TerrainEntityCfg,
    TerrainGeneratorCfg,
)
from mjlab.terrains.terrain_generator import TerrainOutput

from flashsac.tasks.g1.terrain import TERRAIN, Terrain


def terrain_cfg(terrain: Terrain = TERRAIN) -> TerrainEntityCfg:
    """Stairs are there twice, to walk down from the platform and to climb out of a hollow; each has half the share of
    another kind."""
    stairs = dict(
        step_height_range=(0.0, terrain.stairs_height),
        step_width=terrain.stairs_width,
        platform_width=terrain.stairs_platform,
        border_width=terrain.stairs_border,
        proportion=0.5,
    )
    generator = TerrainGeneratorCfg(
        size=(terrain.tile, terrain.tile),
        border_width=terrain.border,
        num_rows=terrain.levels,
        curriculum=True,
        difficulty_range=(terrain.difficulty(0), terrain.difficulty(terrain.levels - 1)),
        sub_terrains={
            "stairs_down": BoxPyramidStairsTerrainCfg(**stairs),
            "stairs_up": BoxInvertedPyramidStairsTerrainCfg(**stairs),
            "grid": BoxRandomGridTerrainCfg(
                grid_height_range=(0.0, terrain.grid_height),
                grid_width=terrain.grid_width,
                platform_width=terrain.grid_platform,
            ),
            "uniform": LevelUniformCfg(noise_range=terrain.noise, noise_step=terrain.noise_step, border_width=0.25),
            "waves": LevelWavesCfg(
                amplitude_range=(0.0, terrain.wave_amplitude), num_waves=terrain.waves, border_width=0.25
            ),
            # Inverted stairs without steps: all that is left is the hollow.
            "pit": BoxInvertedPyramidStairsTerrainCfg(
                step_height_range=(0.0, terrain.pit_depth),
                step_width=terrain.stairs_width,
                platform_width=terrain.pit_width,
                border_width=(terrain.tile - terrain.pit_width) / 2,
            ),
        },
        add_lights=True,
    )
    return TerrainEntityCfg(
        terrain_type="generator", terrain_generator=generator, max_init_terrain_level=terrain.first_levels
    )


def _level(output: TerrainOutput, terrain: Terrain = TERRAIN) -> TerrainOutput:
    """mjlab does not level its height fields, and the height at which it puts a robot need not be that of the middle.
    Robots start up to ten centimetres inside the ground. Here the border and a platform in the middle are at height
    zero. Slopes lead from the platform up or down."""
    (part,) = output.geometries
    assert part.geom is not None
    assert part.hfield is not None
    field = part.hfield
    half_x, half_y, top, base = field.size
    heights = np.asarray(field.userdata).reshape(field.nrow, field.ncol) * top
    heights -= heights[0, 0]
    x, y = np.linspace(-half_x, half_x, field.ncol), np.linspace(-half_y, half_y, field.nrow)
    from_middle = np.maximum(np.abs(x)[None, :], np.abs(y)[:, None])
    heights *= np.clip((from_middle - terrain.field_platform / 2) / terrain.field_slope, 0.0, 1.0)
    low, high = heights.min(), heights.max()
    field.userdata = ((heights - low) / (high - low)).flatten().tolist()  # MuJoCo wants 0 to 1
    field.size = [half_x, half_y, high - low, base]
    part.geom.pos[2] = low
    output.origin[2] = 0.0
    return output


@dataclass(kw_only=True)
class LevelUniformCfg(HfRandomUniformTerrainCfg):
    """Random heights, the same on every level."""

    def function(self, difficulty: float, spec: mujoco.MjSpec, rng: np.random.Generator) -> TerrainOutput:
        return _level(super().function(difficulty, spec, rng))


@dataclass(kw_only=True)
class LevelWavesCfg(HfWaveTerrainCfg):
    """Waves in both directions."""

    def function(self, difficulty: float, spec: mujoco.MjSpec, rng: np.random.Generator) -> TerrainOutput:
        return _level(super().function(difficulty, spec, rng))
