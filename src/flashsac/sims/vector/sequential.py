"""Single environments in this process, one after the other, that can be brought back bit for bit.

A simulator's state is more than its positions and velocities: cached quantities, targets written into the model,
wrappers' counters. Instead of listing them all, an episode is saved as the random state it began from and the actions
since. Playing them again restores it. The return so far and the last observation then prove that it worked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from torch import Tensor

from flashsac.errors import BadSimulation
from flashsac.sims.base import ActionScaler, autoreset, first_obs
from flashsac.types import EnvSpec, Obs, Step

MAX_REPLAYED_STEPS = 20_000
"""Longer episodes are not saved: playing them again would take too long."""

Made = TypeVar("Made")
Outcome = tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]


class OneEnv(Protocol):
    """One environment; observations by group, vectors flat and images as stacks of frames; actions in its own
    bounds."""

    def reset(self, seed: int | None) -> dict[str, np.ndarray]: ...

    def step(self, action: np.ndarray) -> Outcome: ...

    def rng_state(self) -> dict[str, Any]: ...

    def set_rng_state(self, state: dict[str, Any]) -> None: ...

    def render(self) -> np.ndarray: ...

    def close(self) -> None: ...


def starting_with(first: Made, make: Callable[[], Made]) -> Callable[[], Made]:
    """What makes further ones, but gives the one that is there already first: it was made to be asked what it looks
    like."""
    pending = [first]
    return lambda: pending.pop() if pending else make()


@dataclasses.dataclass
class _Episode:
    """How the running episode came about."""

    seed: int | None
    rng: dict[str, Any] | None
    actions: list[np.ndarray]
    obs: dict[str, np.ndarray]
    total: float = 0.0
    """The sum of the rewards so far: an image alone would not show a small difference."""
    too_long: bool = False

    def add(self, action: np.ndarray, reward: float, obs: dict[str, np.ndarray]) -> None:
        self.obs = obs
        self.total += reward
        if len(self.actions) == MAX_REPLAYED_STEPS:
            self.too_long = True
            self.actions.clear()
        if not self.too_long:
            self.actions.append(action)


class SequentialVecEnv:
    """Any number of `OneEnv`s as a VecEnv. It is made for one or a few: each costs Python time every step."""

    def __init__(self, make: Callable[[], OneEnv], spec: EnvSpec, action_dtype: Any = np.float32):
        self.spec = dataclasses.replace(spec, can_save_state=True)
        self._envs = [make() for _ in range(spec.num_envs)]
        self._scale = ActionScaler(spec.action_low, spec.action_high, action_dtype)
        self._episodes: list[_Episode] = []

    def reset(self, seed: int) -> Obs:
        seeds = environment_seeds(seed, len(self._envs))
        self._episodes = [self._begin(env, s) for env, s in zip(self._envs, seeds, strict=True)]
        obs = self._stack([episode.obs for episode in self._episodes])
        return first_obs(obs)

    def step(self, action: Tensor) -> Step:
        unit = action.numpy()
        native = self._scale(unit)
        rows, infos = [], []
        reward, terminated, truncated = (np.zeros(len(self._envs), dtype) for dtype in (np.float64, bool, bool))
        for i, (env, episode) in enumerate(zip(self._envs, self._episodes, strict=True)):
            obs, reward[i], terminated[i], truncated[i], info = env.step(native[i])
            episode.add(unit[i].copy(), reward[i], obs)
            rows.append(obs)
            infos.append(info)
        return autoreset(self._stack(rows), reward, terminated, truncated, _merge(infos), self._reset_envs)

    def _reset_envs(self, ids: Tensor) -> dict[str, np.ndarray]:
        for i in ids.tolist():
            self._episodes[i] = self._begin(self._envs[i], None)
        return self._stack([self._episodes[i].obs for i in ids.tolist()])

    def _begin(self, env: OneEnv, seed: int | None) -> _Episode:
        rng = None if seed is not None else env.rng_state()
        return _Episode(seed, rng, [], env.reset(seed))

    def _stack(self, rows: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        stacked = {}
        for group, (shape, _) in self.spec.groups.items():
            for row in rows:
                if row[group].shape != shape:
                    raise BadSimulation(
                        f"the environment returned an observation of shape {row[group].shape} for '{group}', but its observation "
                        f"space says {shape}. Correct the environment's observation_space or what it returns."
                    )
            stacked[group] = np.stack([row[group] for row in rows])
        return stacked

    def render(self) -> np.ndarray:
        return self._envs[0].render()

    def state_dict(self) -> dict[str, Any]:
        empty = np.zeros((0, self.spec.action_dim), np.float32)
        return {
            "episodes": [
                {
                    "seed": episode.seed,
                    "rng": episode.rng,
                    "actions": np.stack(episode.actions) if episode.actions else empty,
                    "obs": episode.obs,
                    "total": episode.total,
                    "too_long": episode.too_long,
                }
                for episode in self._episodes
            ]
        }

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        if len(state["episodes"]) != len(self._envs) or any(saved["too_long"] for saved in state["episodes"]):
            return False
        self._episodes = []
        for env, saved in zip(self._envs, state["episodes"], strict=True):
            if saved["rng"] is not None:
                env.reset(0)  # some environments make their random generator at the first reset
                env.set_rng_state(saved["rng"])
            episode = self._begin(env, saved["seed"])
            for unit in saved["actions"]:
                obs, reward, *_ = env.step(self._scale(unit))
                episode.add(np.asarray(unit), reward, obs)
            if episode.total != saved.get("total", episode.total):
                return False
            if any(not np.array_equal(episode.obs[group], rows) for group, rows in saved["obs"].items()):
                return False
            self._episodes.append(episode)
        return True

    def close(self) -> None:
        for env in self._envs:
            env.close()


def environment_seeds(seed: int, num_envs: int) -> list[int]:
    """Neighbouring seeds share no environment: a run with seed 1 must not repeat the episodes of seed 0."""
    return np.random.SeedSequence(seed).generate_state(num_envs).tolist() if num_envs > 1 else [seed]


def _merge(infos: list[dict[str, Any]]) -> dict[str, Any]:
    """Numbers that environments report, as arrays; NaN for those that do not. Many speak of success only when an
    episode ends."""
    merged: dict[str, Any] = {}
    for key in dict.fromkeys(key for info in infos for key in info):
        values = [_number(info.get(key, np.nan)) for info in infos]
        if all(isinstance(value, int | float | bool | np.number | np.bool_) for value in values):
            merged[key] = np.asarray(values)
    return merged


def _number(value: Any) -> Any:
    """The number in an array or tensor without axes; anything else as it is."""
    return value.item() if isinstance(value, np.ndarray | Tensor) and value.ndim == 0 else value
