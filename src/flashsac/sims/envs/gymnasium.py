"""Gymnasium: any registered id, and any environment object or factory a user hands over."""

from __future__ import annotations

import importlib
import inspect
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from flashsac.errors import BadSimulation, RenderError, UnsupportedSpace
from flashsac.sims.base import action_bounds
from flashsac.sims.vector.frames import FrameStack, channels_first
from flashsac.sims.vector.sequential import Outcome, SequentialVecEnv, starting_with
from flashsac.system.gl import choose_gl_backend
from flashsac.types import EnvSpec, Pixels

_GROUPS = {"actor": ("actor", "state", "policy"), "critic": ("critic", "privileged_state", "privileged")}
"""Names under which a dict observation may offer what the actor and what only the critic may see."""
OLD_GYM = "Environments written for the old gym must be changed to Gymnasium's interface, which replaced it."


def make_gymnasium(
    env_id: str,
    num_envs: int,
    *,
    max_episode_steps: int | None = None,
    render: bool = False,
    package: str | None = None,
    frame_stack: int = 3,
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
    return from_factory(factory, num_envs, name=env_id, frame_stack=frame_stack)


def from_factory(
    factory: Callable[[], Any], num_envs: int, *, name: str = "environment", frame_stack: int = 3
) -> SequentialVecEnv:
    """Environments made by calling `factory` once each."""
    first = factory()
    if not all(hasattr(first, part) for part in ("reset", "step", "action_space", "observation_space")):
        raise UnsupportedSpace(f"{name} must make a gymnasium.Env, but it returned {type(first).__name__}.")
    spec = _describe(first, num_envs, name, frame_stack)
    make = starting_with(first, factory)
    return SequentialVecEnv(lambda: GymEnv(make(), frame_stack), spec, first.action_space.dtype)


def with_arguments(factory: Callable, known: dict[str, Any], name: str) -> Callable[[], Any]:
    """The factory with those of the known arguments that it takes by name; None is left to its own default."""
    try:
        signature = inspect.signature(factory)
    except ValueError:
        return factory  # something built in: no signature to look at
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    takes = {parameter.name for parameter in signature.parameters.values() if parameter.kind in by_name}
    chosen = {key: value for key, value in known.items() if key in takes and value is not None}
    try:
        signature.bind(**chosen)
    except TypeError as error:
        raise UnsupportedSpace(
            f"{name} must be a function without arguments that makes an environment ({error}); it may take {', '.join(known)}."
        ) from error
    return lambda: factory(**chosen)


def _describe(env: Any, num_envs: int, name: str, frame_stack: int) -> EnvSpec:
    from gymnasium import spaces

    if not isinstance(env.action_space, spaces.Box):
        raise UnsupportedSpace(
            f"{name}: the action space is {env.action_space}, but FlashSAC is for continuous control and needs a Box. "
            "For discrete actions use another algorithm (DQN, PPO), or a continuous version of the task."
        )
    boxes = _boxes(env)
    for key, box in boxes.items():
        if not isinstance(box, spaces.Box):
            raise UnsupportedSpace(
                f"{name}: {_called(key)} is {box}, but FlashSAC needs Box observations. "
                "Wrap it, for example with gymnasium.wrappers.FlattenObservation."
            )
        image = len(box.shape) > 2 or (len(box.shape) == 2 and box.dtype == np.uint8)
        if image and (len(box.shape) != 3 or box.dtype != np.uint8):
            raise UnsupportedSpace(
                f"{name}: {_called(key)} of shape {box.shape} and type {box.dtype} is no vector, and no image either. Images are "
                "uint8, 0 to 255, with three axes (height, width, channels). For a grey image, add an axis: image[..., None]."
            )
    groups = _group_keys(boxes)
    low, high = action_bounds(env.action_space.low, env.action_space.high, name)
    fps = env.unwrapped.metadata.get("render_fps") or 30
    return EnvSpec(
        num_envs=num_envs,
        obs={
            group: sum(int(np.prod(boxes[key].shape)) for key in keys)
            for group, keys in groups.items()
            if group != "pixels"
        },
        action_dim=len(low),
        action_low=low,
        action_high=high,
        max_episode_steps=_time_limit(env),
        fps=float(fps),
        metrics=tuple(env.metadata.get("metrics", ())),
        pixels=_pixels([boxes[key].shape for key in groups.get("pixels", ())], frame_stack, name),
    )


def _time_limit(env: Any) -> int | None:
    """The time limit, also of an environment that was never registered and so has no spec."""
    from gymnasium.wrappers import TimeLimit

    if getattr(env, "spec", None) is not None:
        return env.spec.max_episode_steps
    while env is not env.unwrapped:
        if isinstance(env, TimeLimit):
            return env._max_episode_steps
        env = env.env
    return None


def _pixels(shapes: list[tuple[int, ...]], frame_stack: int, name: str) -> Pixels | None:
    """Several cameras become the channels of one image."""
    images = [channels_first(np.empty(shape)).shape for shape in shapes]
    if not images:
        return None
    if len({shape[1:] for shape in images}) > 1:
        raise UnsupportedSpace(
            f"{name}: the images have different sizes {shapes}. Resize them to one, for example with "
            "gymnasium.wrappers.ResizeObservation."
        )
    height, width = images[0][1:]
    return Pixels(sum(shape[0] for shape in images), height, width, frame_stack)


def _boxes(env: Any) -> dict[str, Any]:
    """Observation spaces by key; a space that is no dict has the key ''."""
    space = env.observation_space
    return space.spaces if hasattr(space, "spaces") and isinstance(space.spaces, dict) else {"": space}


def _called(key: str) -> str:
    return f"observation '{key}'" if key else "the observation"


def _group_keys(boxes: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Which observation keys make up the actor's and the critic's group, and which are images."""
    images = tuple(sorted(key for key, box in boxes.items() if len(box.shape) == 3 and box.dtype == np.uint8))
    keys = tuple(key for key in boxes if key not in images)
    groups = {"pixels": images} if images else {}
    actor = next((name for name in _GROUPS["actor"] if name in keys), None)
    critic = next((name for name in _GROUPS["critic"] if name in keys), None)
    if actor is not None and critic is not None:
        return groups | {"actor": (actor,), "critic": (critic,)}
    if critic is not None and images:
        groups["critic"], keys = (critic,), tuple(key for key in keys if key != critic)
    return groups | ({"actor": tuple(sorted(keys))} if keys else {})


def _enlarged(image: np.ndarray) -> np.ndarray:
    """A small observation as a picture to look at: colours last, three of them."""
    picture = np.moveaxis(channels_first(image), 0, -1)
    picture = picture[..., :3] if picture.shape[-1] >= 3 else np.repeat(picture[..., :1], 3, -1)
    times = max(1, 240 // min(picture.shape[:2]))
    return picture.repeat(times, 0).repeat(times, 1)


class GymEnv:
    """A Gymnasium environment as a OneEnv."""

    def __init__(self, env: Any, frame_stack: int = 3):
        self._env = env
        self._shape = env.action_space.shape
        boxes = _boxes(env)
        self._groups = _group_keys(boxes)
        self._images = {key: boxes[key].shape for key in self._groups.pop("pixels", ())}
        self._frames = FrameStack(frame_stack)
        self._picture: np.ndarray | None = None  # what the first camera showed last

    def _split(self, obs: Any, stack: Callable[[np.ndarray], np.ndarray]) -> dict[str, np.ndarray]:
        by_key = obs if isinstance(obs, dict) else {"": obs}
        groups = {
            group: np.concatenate([np.asarray(by_key[key], np.float64).ravel() for key in keys])
            for group, keys in self._groups.items()
        }
        if self._images:
            images = [np.asarray(by_key[key]) for key in self._images]
            for (key, shape), image in zip(self._images.items(), images, strict=True):
                if image.dtype != np.uint8 or image.shape != shape:
                    raise BadSimulation(
                        f"the environment returned {_called(key)} as {image.dtype} of shape {image.shape}, but its observation space "
                        f"says uint8 (0 to 255) of shape {shape}. Correct what it returns."
                    )
            self._picture = images[0]
            groups["pixels"] = stack(np.concatenate([channels_first(image) for image in images]))
        return groups

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        try:
            result = self._env.reset(seed=seed)
        except TypeError as error:
            if "'seed'" not in str(error):
                raise
            raise BadSimulation(f"the environment's reset() takes no seed ({error}). {OLD_GYM}") from error
        if not (isinstance(result, tuple) and len(result) == 2):
            raise BadSimulation(f"the environment's reset() returned no pair (observation, info). {OLD_GYM}")
        return self._split(result[0], self._frames.begin)

    def step(self, action: np.ndarray) -> Outcome:
        try:
            obs, reward, terminated, truncated, info = self._env.step(action.reshape(self._shape))
        except ValueError as error:
            if "expected 5" not in str(error):
                raise
            raise BadSimulation(
                f"the environment's step() must return (observation, reward, terminated, truncated, info): {error}. {OLD_GYM}"
            ) from error
        return self._split(obs, self._frames.add), float(reward), bool(terminated), bool(truncated), info

    def rng_state(self) -> dict[str, Any]:
        return self._env.unwrapped.np_random.bit_generator.state

    def set_rng_state(self, state: dict[str, Any]) -> None:
        self._env.unwrapped.np_random.bit_generator.state = state

    def render(self) -> np.ndarray:
        os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Gymnasium's, about the missing render_mode: we say so ourselves
                frame = self._env.render()
        except NotImplementedError:
            frame = None
        if frame is None and self._picture is not None:
            return _enlarged(self._picture)
        if np.ndim(frame) != 3:
            raise RenderError(
                "the environment draws no pictures. Its render() must return an array (height, width, 3); Gymnasium's own do if they "
                "are made with render_mode='rgb_array'."
            )
        return np.asarray(frame)

    def close(self) -> None:
        self._env.close()
