"""What a task on the Genesis engine consists of, and the tensor tools such tasks share. The import needs no Genesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from flashsac.types import Obs


class Outcome(NamedTuple):
    """What a control step led to, for every environment, before anything is reset."""

    obs: Obs
    reward: Tensor
    terminated: Tensor
    info: dict[str, Any]


class GenesisTask(Protocol):
    """One task, for all environments at once. Quaternions are (w, x, y, z), as in Genesis."""

    obs: dict[str, int]
    action_limits: tuple[float, ...]
    """Actions of the task's own lie between minus and plus these."""
    control_seconds: float
    substeps: int
    """Physics steps in a control step."""
    physics: dict[str, Any]
    """Settings of Genesis' rigid solver that differ from its defaults."""
    episode_seconds: float
    camera_offset: tuple[float, float, float]
    """Position of the camera, relative to what it looks at."""

    def add_to(self, scene: Any) -> None:
        """Put the robot and all else into a scene that is not built yet."""
        ...

    def built(self, num_envs: int, device: torch.device) -> None:
        """Gains, indices, buffers: what needs a built scene."""
        ...

    def reset(self, ids: Tensor, draw: Sampler) -> None:
        """Begin episodes in these environments; the scene has put them back to its initial state already."""
        ...

    def act(self, action: Tensor) -> None:
        """Set the motors' targets for the next control step; action within `action_limits`."""
        ...

    def outcome(self, elapsed: Tensor, draw: Sampler) -> Outcome:
        """Judge the step just made, the `elapsed`-th of its episode."""
        ...

    def observe(self) -> Obs:
        """What there is to see now."""
        ...

    def trial(self, simulate: Callable[[], None]) -> Tensor | None:
        """A last test when the time is up, which may simulate on: success by environment. None if there is no such
        test."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """What the task remembers beside the scene."""
        ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...

    def focus(self) -> Tensor:
        """The point of the first environment that the camera should look at."""
        ...


class Sampler:
    """Random numbers of one seed. They are drawn on the CPU, so that a GPU gives the same episodes."""

    def __init__(self, device: torch.device):
        self._device = device
        self.generator = torch.Generator()

    def uniform(self, low: Tensor, high: Tensor, count: int) -> Tensor:
        """(count, width) between two vectors."""
        unit = torch.rand(count, len(low), generator=self.generator).to(self._device)
        return low + unit * (high - low)


def rotate(quat: Tensor, vector: Tensor) -> Tensor:
    """A vector of the body's frame, in the world's frame."""
    w, xyz = quat[..., :1], quat[..., 1:]
    twice_cross = 2.0 * torch.linalg.cross(xyz, vector)
    return vector + w * twice_cross + torch.linalg.cross(xyz, twice_cross)


def rotate_back(quat: Tensor, vector: Tensor) -> Tensor:
    """A vector of the world's frame, in the body's frame."""
    return rotate(torch.cat((quat[..., :1], -quat[..., 1:]), -1), vector)
