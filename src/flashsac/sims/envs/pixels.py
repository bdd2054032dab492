"""dm_control from images, in the setting of DrQ-v2: frames of 84 x 84, three to an observation, every action twice.

Drawing is most of the work. So that it goes on while the learner learns, every environment has a process of its own.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from flashsac.core.encoders.pixels import SMALLEST
from flashsac.errors import FlashSACError
from flashsac.sims.base import VecEnv
from flashsac.sims.envs.dmc import DmcEnv, describe
from flashsac.sims.simulator import EnvRequest, Task
from flashsac.sims.vector.frames import FrameStack
from flashsac.sims.vector.sequential import Outcome, SequentialVecEnv, starting_with
from flashsac.sims.vector.workers import WorkerVecEnv
from flashsac.system.gl import require_gl_backend
from flashsac.types import Pixels

LARGEST = 480
"""Height of the picture that dm_control's models reserve room for."""
CAMERAS = {"quadruped": 2}
"""The camera by domain, where the first camera does not follow the robot."""
SHADOW_MAP = 1024
"""Half of dm_control's own side: without a GPU the map takes longer than the picture, which hardly shows it."""


def make_pixels(task: Task, request: EnvRequest, action_repeat: int) -> VecEnv:
    if not SMALLEST <= request.image_size <= LARGEST:
        raise FlashSACError(f"--env.image-size must be {SMALLEST} to {LARGEST}, not {request.image_size}.")
    require_gl_backend()
    make = functools.partial(PixelEnv, task.name, request, action_repeat)
    if request.overlap:
        return WorkerVecEnv(make, request.num_envs)
    first = make()
    spec = dataclasses.replace(first.spec, num_envs=request.num_envs)
    return SequentialVecEnv(starting_with(first, make), spec)


class PixelEnv:
    """A dm_control environment that shows images, as a OneEnv. It does every action `action_repeat` times; its time
    counts actions."""

    def __init__(self, name: str, request: EnvRequest, action_repeat: int):
        domain, task = name.split("-")
        limit, self._repeat = request.max_episode_steps, action_repeat
        self._env = DmcEnv(domain, task, limit * action_repeat if limit else None)
        self._env.env.physics.model.vis.quality.shadowsize = SHADOW_MAP
        self._camera = CAMERAS.get(domain, 0)
        self._size, self._with_state = request.image_size, request.with_state
        self._frames = FrameStack(request.frame_stack)
        spec = describe(self._env, f"dmc-vision:{name}")
        self.spec = dataclasses.replace(
            spec,
            obs=spec.obs if request.with_state else {},
            max_episode_steps=-(-spec.max_episode_steps // action_repeat) if spec.max_episode_steps else None,
            fps=spec.fps / action_repeat,
            pixels=Pixels(3, request.image_size, request.image_size, request.frame_stack),
        )

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        state = self._env.reset(seed)
        return self._show(state, self._frames.begin(self._draw(self._size)))

    def step(self, action: np.ndarray) -> Outcome:
        total = 0.0
        for _ in range(self._repeat):
            state, reward, terminated, truncated, info = self._env.step(action)
            total += reward
            if terminated or truncated:
                break
        return self._show(state, self._frames.add(self._draw(self._size))), total, terminated, truncated, info

    def _draw(self, size: int) -> np.ndarray:
        return np.moveaxis(self._env.env.physics.render(size, size, camera_id=self._camera), -1, 0)

    def _show(self, state: dict[str, np.ndarray], images: np.ndarray) -> dict[str, np.ndarray]:
        return (state if self._with_state else {}) | {"pixels": images}

    def rng_state(self) -> dict[str, Any]:
        return self._env.rng_state()

    def set_rng_state(self, state: dict[str, Any]) -> None:
        self._env.set_rng_state(state)

    def render(self) -> np.ndarray:
        return np.moveaxis(self._draw(480), 0, -1)

    def close(self) -> None:
        self._env.close()
