"""Gymnasium: any registered id, and any environment object or factory a user hands over."""

from __future__ import annotations

import importlib
import inspect
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from flashsac.errors import RenderError, UnsupportedSpace
from flashsac.sims.base import action_bounds
from flashsac.sims.sequential import Outcome, SequentialVecEnv
from flashsac.types import EnvSpec

_GROUPS = {"actor": ("actor", "state", "policy"), "critic": ("critic", "privileged_state", "privileged")}
"""Names under which a dict observation may offer what the actor and what only the critic may see."""


def make_gymnasium(
    env_id: str,
    num_envs: int,
    *,
    max_episode_steps: int | None = None,
    render: bool = False,
    package: str | None = None,
    wrap: Callable[[Any], Any] = lambda env: env,
) -> SequentialVecEnv:
    """Environments by their registered id; `package` is what registers them, `wrap` mends each where it must."""
    import gymnasium

    if package is not None:
        gymnasium.register_envs(importlib.import_module(package))

    def factory() -> Any:
        options: dict[str, Any] = {"render_mode": "rgb_array"} if render else {}
        if max_episode_steps is not None:
            options["max_episode_steps"] = max_episode_steps
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the paper's -v4 tasks are "deprecated", on purpose
            gymnasium.logger.min_level = gymnasium.logger.ERROR
            return wrap(gymnasium.make(env_id, **options))

    if render:
        choose_gl_backend()
    return from_factory(factory, num_envs, name=env_id)


def from_factory(factory: Callable[[], Any], num_envs: int, *, name: str = "environment") -> SequentialVecEnv:
    """Environments made by calling `factory` once each."""
    first = factory()
    if not all(hasattr(first, part) for part in ("reset", "step", "action_space", "observation_space")):
        raise UnsupportedSpace(f"{name} must make a gymnasium.Env, but it returned {type(first).__name__}.")
    describe = _describe(first, num_envs, name)
    pending = [first]
    return SequentialVecEnv(lambda: GymEnv(pending.pop() if pending else factory()), describe, first.action_space.dtype)


def require_no_arguments(factory: Callable, name: str) -> None:
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise UnsupportedSpace(
            f"{name} must be a function without arguments that makes an environment ({error})."
        ) from error
    except ValueError:
        pass  # something built in: no signature to look at


def _describe(env: Any, num_envs: int, name: str) -> EnvSpec:
    from gymnasium import spaces

    if not isinstance(env.action_space, spaces.Box):
        raise UnsupportedSpace(
            f"{name}: the action space is {env.action_space}, but FlashSAC is for continuous control and needs a Box. "
            "For discrete actions use another algorithm (DQN, PPO), or a continuous version of the task."
        )
    boxes: dict[str, Any] = (
        env.observation_space.spaces if isinstance(env.observation_space, spaces.Dict) else {"": env.observation_space}
    )
    for key, box in boxes.items():
        if not isinstance(box, spaces.Box):
            raise UnsupportedSpace(
                f"{name}: observation {key!r} is {box}, but FlashSAC needs Box observations. "
                "Wrap it, for example with gymnasium.wrappers.FlattenObservation."
            )
        if len(box.shape) == 3:
            raise UnsupportedSpace(
                f"{name}: observation {key!r} is an image {box.shape}; this version trains from state vectors. "
                "Use the task's state observations."
            )
    low, high = action_bounds(env.action_space.low, env.action_space.high, name)
    limit = env.spec.max_episode_steps if getattr(env, "spec", None) is not None else None
    fps = env.unwrapped.metadata.get("render_fps") or 30
    return EnvSpec(
        num_envs=num_envs,
        obs={
            group: sum(int(np.prod(boxes[key].shape)) for key in keys)
            for group, keys in _group_keys(tuple(boxes)).items()
        },
        action_dim=len(low),
        action_low=low,
        action_high=high,
        max_episode_steps=limit,
        fps=float(fps),
    )


def _group_keys(keys: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Which observation keys make up the actor's and the critic's group."""
    actor = next((name for name in _GROUPS["actor"] if name in keys), None)
    critic = next((name for name in _GROUPS["critic"] if name in keys), None)
    if actor is not None and critic is not None:
        return {"actor": (actor,), "critic": (critic,)}
    return {"actor": tuple(sorted(keys))}


class GymEnv:
    """A Gymnasium environment as a OneEnv."""

    def __init__(self, env: Any):
        self._env = env
        self._shape = env.action_space.shape
        space = env.observation_space
        self._groups = _group_keys(tuple(space.spaces)) if hasattr(space, "spaces") else None

    def _split(self, obs: Any) -> dict[str, np.ndarray]:
        if self._groups is None:
            return {"actor": np.asarray(obs, np.float64).ravel()}
        return {
            group: np.concatenate([np.asarray(obs[key], np.float64).ravel() for key in keys])
            for group, keys in self._groups.items()
        }

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        obs, _ = self._env.reset(seed=seed)
        return self._split(obs)

    def step(self, action: np.ndarray) -> Outcome:
        obs, reward, terminated, truncated, info = self._env.step(action.reshape(self._shape))
        return self._split(obs), float(reward), bool(terminated), bool(truncated), info

    def rng_state(self) -> dict[str, Any]:
        return self._env.unwrapped.np_random.bit_generator.state

    def set_rng_state(self, state: dict[str, Any]) -> None:
        self._env.unwrapped.np_random.bit_generator.state = state

    def render(self) -> np.ndarray:
        frame = self._env.render()
        if frame is None:
            raise RenderError("the environment draws nothing: make it with render_mode='rgb_array'.")
        return np.asarray(frame)

    def close(self) -> None:
        self._env.close()


def choose_gl_backend() -> None:
    """MuJoCo reads MUJOCO_GL when it is first imported; without a display it must be told to draw off-screen."""
    if not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")
