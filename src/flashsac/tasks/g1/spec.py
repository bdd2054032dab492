"""What a trainer can know of the paper's G1 task from the tables of robots/g1.py, which itself needs no torch."""

from __future__ import annotations

import dataclasses

from flashsac.robots.g1 import G1, HEIGHT_MAP, JOINTS
from flashsac.tasks.symmetry import Kind, mirror
from flashsac.types import EnvSpec

_SEEN: tuple[Kind, ...] = ("axial", "polar", "command", "joints", "joints", "joints")
_PRIVILEGED: tuple[Kind, ...] = ("polar", "feet", "grid")


def annotate_spec(spec: EnvSpec) -> EnvSpec:
    """Add what follows from the tables: where the critic finds the velocity, and how everything looks in a mirror."""
    joints, first = tuple(joint.name for joint in JOINTS), G1.obs_dim
    layouts = {"actor": _SEEN, "critic": _SEEN + _PRIVILEGED, "action": ("joints",)}
    mirrors = {
        group: mirror(layout, joints, ("left", "right"), grid=HEIGHT_MAP[::-1]) for group, layout in layouts.items()
    }
    return dataclasses.replace(spec, velocity=(first, first + 3), mirrors=mirrors)
