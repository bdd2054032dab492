"""dm_control through its own package: state observations, exact resume."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import numpy as np

from flashsac.sims.base import action_bounds
from flashsac.sims.simulator import EnvRequest, Task
from flashsac.sims.vector.sequential import Outcome, SequentialVecEnv, starting_with
from flashsac.system.gl import choose_gl_backend
from flashsac.types import EnvSpec


def make_dmc(task: Task, request: EnvRequest) -> SequentialVecEnv:
    """The task is called domain-task, by dm_control's own names."""
    if request.render:
        choose_gl_backend()
    domain, name = task.name.split("-")
    make = functools.partial(DmcEnv, domain, name, request.max_episode_steps)
    first = make()
    spec = dataclasses.replace(describe(first, task.full_name), num_envs=request.num_envs)
    return SequentialVecEnv(starting_with(first, make), spec, first.env.action_spec().dtype)


class DmcEnv:
    """A dm_control environment as a OneEnv."""

    def __init__(self, domain: str, task: str, max_episode_steps: int | None):
        from dm_control import suite

        # A limit of ours replaces dm_control's own, which would otherwise cut longer episodes all the same.
        unlimited = {} if max_episode_steps is None else {"time_limit": math.inf}
        self.env = suite.load(domain, task, task_kwargs={"random": 0, **unlimited})
        own_limit = self.env._step_limit
        self.limit = max_episode_steps or (int(own_limit) if math.isfinite(own_limit) else None)
        self._elapsed = 0

    def _flat(self, timestep: Any) -> dict[str, np.ndarray]:
        # Sorted, so that a policy does not care which engine trained it.
        return {"actor": np.concatenate([np.ravel(timestep.observation[key]) for key in sorted(timestep.observation)])}

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        if seed is not None:
            self.env.task.random.seed(seed)
        self._elapsed = 0
        return self._flat(self.env.reset())

    def step(self, action: np.ndarray) -> Outcome:
        timestep = self.env.step(action)
        self._elapsed += 1
        terminated = timestep.last() and timestep.discount == 0.0
        truncated = not terminated and (timestep.last() or self._elapsed == self.limit)
        return self._flat(timestep), float(timestep.reward or 0.0), bool(terminated), bool(truncated), {}

    def rng_state(self) -> dict[str, Any]:
        return self.env.task.random.get_state(legacy=False)

    def set_rng_state(self, state: dict[str, Any]) -> None:
        self.env.task.random.set_state(state)

    def render(self) -> np.ndarray:
        return self.env.physics.render(480, 480, camera_id=0)

    def close(self) -> None:
        self.env.close()


def describe(env: DmcEnv, name: str) -> EnvSpec:
    action = env.env.action_spec()
    low, high = action_bounds(
        np.broadcast_to(action.minimum, action.shape), np.broadcast_to(action.maximum, action.shape), name
    )
    return EnvSpec(
        num_envs=1,
        obs={"actor": sum(int(np.prod(box.shape)) for box in env.env.observation_spec().values())},
        action_dim=len(low),
        action_low=low,
        action_high=high,
        max_episode_steps=env.limit,
        fps=1.0 / env.env.control_timestep(),
    )
