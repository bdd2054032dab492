"""Another look at an environment's observations: less of them (what a robot does not sense), or more (those of the last
steps)."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError
from flashsac.sims.base import OverlappingVecEnv, VecEnv
from flashsac.sims.vector.history import HistoryBuffer
from flashsac.tasks.symmetry import joined
from flashsac.types import EnvSpec, Mirror, Obs, Step


def apply_views(env: VecEnv, config: EnvConfig, task: str) -> VecEnv:
    """The environments with the views that --env.blind, --env.no-privileged and --env.history ask for."""
    if config.blind:
        if env.spec.actor_velocity is None:
            raise FlashSACError(
                f"--env.blind is for Playground's joystick tasks; nobody knows which columns of {task} to hide."
            )
        env = Columns(env, "actor", _all_but(env.spec.obs["actor"], env.spec.actor_velocity))
    if not config.privileged:
        env = Columns(env, "critic", [])
    if config.history:
        if env.spec.velocity is None:
            raise FlashSACError(
                "--env.history is for tasks that tell the critic the base's velocity, from which the context estimator learns; "
                f"{task} does not (or --env.no-privileged hides it)."
            )
        env = History(env, config.history)
    return env


class View(abc.ABC):
    """A wrapper that passes everything on, but for the observations."""

    def __init__(self, env: VecEnv, spec: EnvSpec):
        self.env, self.spec = env, spec
        if isinstance(env, OverlappingVecEnv):
            self.send = env.send
            self.receive = lambda: self._after(env.receive())

    def reset(self, seed: int) -> Obs:
        return self._first(self.env.reset(seed))

    def step(self, action: Tensor) -> Step:
        return self._after(self.env.step(action))

    @abc.abstractmethod
    def _first(self, obs: Obs) -> Obs:
        """The observations of a reset, as seen through the view."""

    @abc.abstractmethod
    def _after(self, step: Step) -> Step:
        """A step, as seen through the view."""

    def render(self) -> np.ndarray:
        return self.env.render()

    def state_dict(self) -> dict[str, Any]:
        return self.env.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        return self.env.load_state_dict(state)

    def close(self) -> None:
        self.env.close()


class Columns(View):
    """A view of some columns of one group. The group is gone when there are none."""

    def __init__(self, env: VecEnv, group: str, columns: list[int]):
        spec = env.spec
        obs = {name: width for name, width in spec.obs.items() if name != group or columns}
        mirrors = {name: found for name, found in spec.mirrors.items() if name != group}
        if columns:
            obs[group] = len(columns)
        if columns and group in spec.mirrors:
            mirrors[group] = _of_columns(spec.mirrors[group], columns)
        hidden: dict[str, Any] = {"velocity" if group == "critic" else "actor_velocity": None}
        super().__init__(env, dataclasses.replace(spec, obs=obs, mirrors=mirrors, **hidden))
        self._group, self._columns = group, torch.tensor(columns, dtype=torch.int64, device=spec.device)

    def _first(self, obs: Obs) -> Obs:
        if self._group not in self.spec.obs:
            return {name: rows for name, rows in obs.items() if name != self._group}
        return obs | {self._group: obs[self._group][:, self._columns]}

    def _after(self, step: Step) -> Step:
        return step._replace(obs=self._first(step.obs), final_obs=self._first(step.final_obs))


class History(View):
    """A view that shows the actor's earlier observations too."""

    def __init__(self, env: VecEnv, length: int):
        spec, mirrors = env.spec, dict(env.spec.mirrors)
        if "actor" in mirrors:
            mirrors["history"] = joined([mirrors["actor"]] * length)
        super().__init__(env, dataclasses.replace(spec, history=length, mirrors=mirrors))
        self._buffer = HistoryBuffer(length)

    def _first(self, obs: Obs) -> Obs:
        return obs | {"history": self._buffer.begin(obs["actor"])}

    def _after(self, step: Step) -> Step:
        over = step.terminated | step.truncated | ~step.valid
        history, final = self._buffer.add(step.obs["actor"], over)
        return step._replace(obs=step.obs | {"history": history}, final_obs=step.final_obs | {"history": final})

    def state_dict(self) -> dict[str, Any]:
        return {"env": self.env.state_dict(), "past": self._buffer.past, "newest": self._buffer.newest}

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        if not self.env.load_state_dict(state["env"]):
            return False
        past, newest = (torch.as_tensor(state[name]).to(self.spec.device) for name in ("past", "newest"))
        self._buffer.past, self._buffer.newest = past, newest
        return True


def _all_but(width: int, hidden: tuple[int, int]) -> list[int]:
    return [column for column in range(width) if not hidden[0] <= column < hidden[1]]


def _of_columns(mirror: Mirror, columns: list[int]) -> Mirror:
    """The mirror of a selection that holds with every column its partner."""
    place = {column: index for index, column in enumerate(columns)}
    return Mirror(
        tuple(place[mirror.source[column]] for column in columns), tuple(mirror.sign[column] for column in columns)
    )
