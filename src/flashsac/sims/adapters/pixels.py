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
from flashsac.sims.adapters.dmc import DmcEnv, describe
from flashsac.sims.base import VecEnv
from flashsac.sims.catalog import Task
from flashsac.sims.engines import Options
from flashsac.sims.vector.frames import FrameStack
from flashsac.sims.vector.sequential import Outcome, SequentialVecEnv, starting_with
from flashsac.sims.vector.workers import WorkerVecEnv
from flashsac.system.gl import require_gl_backend
from flashsac.types import Pixels

ACTION_REPEAT = 2
LARGEST = 480
"""Height of the picture that dm_control's models reserve room for."""
CAMERAS = {"quadruped": 2}
"""Where the first camera does not follow the robot."""
SHADOW_MAP = 1024
"""Half of dm_control's own side: without a GPU the map takes longer than the picture, which hardly shows it."""


def make_pixels(task: Task, options: Options) -> VecEnv:
    if not SMALLEST <= options.image_size <= LARGEST:
        raise FlashSACError(f"--env.image-size must be {SMALLEST} to {LARGEST}, not {options.image_size}.")
    require_gl_backend()
    make = functools.partial(PixelEnv, task.name, options)
    if options.overlap:
        return WorkerVecEnv(make, options.num_envs)
    first = make()
    spec = dataclasses.replace(first.spec, num_envs=options.num_envs)
    return SequentialVecEnv(starting_with(first, make), spec)


class PixelEnv:
    """A dm_control environment that shows images, as a OneEnv. Its time counts actions, each of which is done twice."""

    def __init__(self, name: str, options: Options):
        domain, task = name.split("-")
        limit = options.max_episode_steps
        self._env = DmcEnv(domain, task, limit * ACTION_REPEAT if limit else None)
        self._env.env.physics.model.vis.quality.shadowsize = SHADOW_MAP
        self._camera = CAMERAS.get(domain, 0)
        self._size, self._with_state = options.image_size, options.with_state
        self._frames = FrameStack(options.frame_stack)
        spec = describe(self._env, f"dmc-vision:{name}")
        self.spec = dataclasses.replace(
            spec,
            obs=spec.obs if options.with_state else {},
            max_episode_steps=-(-spec.max_episode_steps // ACTION_REPEAT) if spec.max_episode_steps else None,
            fps=spec.fps / ACTION_REPEAT,
            pixels=Pixels(3, options.image_size, options.image_size, options.frame_stack),
        )

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        state = self._env.reset(seed)
        return self._show(state, self._frames.begin(self._draw(self._size)))

    def step(self, action: np.ndarray) -> Outcome:
        total = 0.0
        for _ in range(ACTION_REPEAT):
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
