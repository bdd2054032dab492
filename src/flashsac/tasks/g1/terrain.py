"""The ground of the rough task: tiles of five kinds, ten levels each (the paper's "Terrain Configuration and
Curriculum")."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Terrain:
    """Heights are those of the hardest level; level k of n has (k + 1) / n of them."""

    levels: int = 10
    """levels of difficulty (paper)"""
    tile: float = 8.0
    """m, a tile's side (ours)"""
    border: float = 20.0
    """m of flat ground around all tiles (ours)"""
    first_levels: int = 5
    """episodes begin on levels 0 to this one (ours)"""
    stairs_height: float = 0.23
    """m, a step of the pyramid stairs (paper)"""
    stairs_width: float = 0.32
    """m, its depth (paper)"""
    stairs_platform: float = 3.0
    """m, the platform on top (paper)"""
    stairs_border: float = 0.9
    """m of flat ground around the stairs (ours: five steps and the platform fill the rest)"""
    grid_height: float = 0.15
    """m, cells of the random grid lie that much higher or lower than the ground at most (paper)"""
    grid_width: float = 0.45
    """m, a cell's side (ours)"""
    grid_platform: float = 2.0
    """m, the platform in the middle (ours)"""
    noise: tuple[float, float] = (-0.02, 0.04)
    """m, lowest and highest of the random uniform ground, on every level (paper)"""
    noise_step: float = 0.02
    """m between the heights that are drawn (ours)"""
    wave_amplitude: float = 0.2
    """m (paper)"""
    waves: int = 4
    """waves on a tile (ours)"""
    field_platform: float = 2.0
    """m, a flat place in the middle of uniform ground and waves, where robots begin (ours)"""
    field_slope: float = 0.5
    """m from its edge to the full heights (ours)"""
    pit_depth: float = 0.3
    """m (paper)"""
    pit_width: float = 3.0
    """m, the pit's side; a robot begins at its bottom (ours)"""

    def difficulty(self, level: int) -> float:
        """The share of the full heights on a level. It is never 0: mjlab would make stairs two micrometres thick,
        through which a foot falls."""
        return (level + 1) / self.levels


TERRAIN = Terrain()
