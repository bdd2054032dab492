"""A velocity command, its age, and what every source of commands can do.

A source that falls silent lets its last command grow old; safety.py acts on the age."""

# ruff: noqa: B027 (a hook that does nothing by default is meant)

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Command:
    """A velocity command, as a source gave it: not yet limited to what the policy was trained on."""

    velocity: np.ndarray
    """Shape (3,): forwards and to the left (m/s), turning (rad/s)."""
    age: float = 0.0
    """Seconds since the source last confirmed it."""
    ended: str | None = None
    """Why the source will give no further command; the robot stops at once."""


class Commands(abc.ABC):
    """A source of commands. The defaults suit a source that has a command from the start."""

    needs_real_time = False
    """True if the loop must keep to the clock, because a person or another process sends the commands."""

    @property
    def begins_when(self) -> str | None:
        """What must happen before the policy begins; None if nothing must."""
        return None

    def listen(self) -> None:
        """The robot stands and is ready. A source that must not begin earlier forgets what it heard until now."""

    def hear_remote(self, remote: Sequence[int]) -> None:
        """Take the 40 bytes of the robot's remote, from every message of a robot that has one."""

    @abc.abstractmethod
    def read(self, seconds: float) -> Command | None:
        """The command that holds `seconds` into the episode; None while there has been none."""

    def close(self) -> None:
        """Stop listening."""
