"""What differs from robot to robot and from episode to episode.

The paper says "large-scale domain randomization" and gives no numbers: every range here is ours, near what mjlab and
Legged Lab use.
"""

from __future__ import annotations

import dataclasses
import math

from flashsac.robots.description import Range


@dataclasses.dataclass(frozen=True)
class Randomization:
    """Drawn uniformly. The first six once a robot, the delay once an episode."""

    friction: Range = (0.3, 1.2)
    """sliding friction of the soles on the ground, both feet alike"""
    torso_mass: Range = (0.8, 1.2)
    """factor of the torso's mass and inertia (7.8 kg)"""
    link_mass: Range = (0.9, 1.1)
    """factor of every other link's mass and inertia"""
    torso_center: tuple[Range, Range, Range] = ((-0.025, 0.025), (-0.025, 0.025), (-0.03, 0.03))
    """shift of the torso's centre of mass, m: ahead, left, up"""
    gains: Range = (0.9, 1.1)
    """factor of stiffness and of damping, by joint"""
    encoder_bias: Range = (-0.015, 0.015)
    """rad by which a joint's encoder is off, in what the policy sees and in what the motor does"""
    delay: tuple[int, int] = (0, 4)
    """steps of the motor controller (5 ms each) until a target arrives at the motors"""
    push: Range = (-1.0, 1.0)
    """m/s added to the base's velocity, ahead and to the side, by a push"""
    push_every: Range = (10.0, 15.0)
    """s from one push to the next"""


@dataclasses.dataclass(frozen=True)
class Start:
    """How an episode begins, beside the default pose. Ours too."""

    position: Range = (-0.5, 0.5)
    """m from the middle of the tile, ahead and to the side"""
    heading: Range = (-math.pi, math.pi)
    """rad"""
    clearance: Range = (0.02, 0.05)
    """m of the soles above the ground: a bent knee must not start inside it"""
    joint_offset: Range = (-0.1, 0.1)
    """rad from the default pose, by joint"""
    velocity: Range = (-0.5, 0.5)
    """m/s ahead and to the side, rad/s of turning"""


RANDOMIZATION = Randomization()
START = Start()
EPISODE_SECONDS = 20.0
FALLEN = math.radians(70.0)
"""Tilt of the base beyond which an episode ends; it also ends when the torso touches the ground. Ours: the paper names
none."""
