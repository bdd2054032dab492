"""The whole contract between a simulator and the trainer, and the helpers adapters share; `check.py` says whether one
keeps it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from flashsac.errors import BadSimulation, UnsupportedSpace
from flashsac.types import EnvSpec, Obs, Step, usable_reward


class VecEnv(Protocol):
    """A batch of environments, stepped together and reset by themselves."""

    spec: EnvSpec

    def reset(self, seed: int) -> Obs:
        """Start every environment anew; the same seed gives the same episodes."""
        ...

    def step(self, action: Tensor) -> Step:
        """action: (envs, action_dim) in [-1, 1]. Tensors returned are the caller's to keep."""
        ...

    def render(self) -> np.ndarray:
        """A picture of the first environment, (height, width, 3) uint8."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on bit for bit where spec.can_save_state, else what is worth keeping; plain values
        and arrays."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Go on from there. False if it could not be brought back bit for bit: the caller must reset."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class OverlappingVecEnv(VecEnv, Protocol):
    """One that simulates in threads of its own: `step` in two halves, with room for other work between them."""

    def send(self, action: Tensor) -> None:
        """Begin a step; `action` is not looked at after this returns."""
        ...

    def receive(self) -> Step:
        """Wait for the step that was begun."""
        ...


@contextlib.contextmanager
def no_exit(doing: str) -> Iterator[None]:
    """An environment that calls sys.exit must not end the program in silence, least of all with exit code 0."""
    try:
        yield
    except SystemExit as error:
        raise BadSimulation(
            f"the environment called sys.exit({error.code!r}) during {doing}. An environment must not end the program: raise an "
            "exception there, or end the episode (terminated)."
        ) from error


class Unsaved:
    """A base for simulators whose state cannot be saved: a resumed run begins new episodes."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        return False


def action_bounds(low: np.ndarray, high: np.ndarray, task: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Bounds as plain numbers; refuses the infinite ones, which nobody could rescale to."""
    low, high = np.asarray(low, np.float64).ravel(), np.asarray(high, np.float64).ravel()
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (high > low).all()):
        raise UnsupportedSpace(
            f"{task}: the action space is unbounded or empty (low {low.tolist()}, high {high.tolist()}). FlashSAC acts in "
            "[-1, 1] and rescales to finite bounds, so say which actions make sense. For actions from -1 to 1: "
            "gymnasium.wrappers.TransformAction(env, lambda action: action, "
            "gymnasium.spaces.Box(-1.0, 1.0, env.action_space.shape))."
        )
    return tuple(low.tolist()), tuple(high.tolist())


class ActionScaler:
    """[-1, 1] to the simulator's own bounds."""

    def __init__(self, low: tuple[float, ...], high: tuple[float, ...], dtype: np.dtype | type = np.float32):
        self._low, self._high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        self._dtype = dtype

    def __call__(self, action: Tensor | np.ndarray) -> np.ndarray:
        unit = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        return (self._low + 0.5 * (unit + 1.0) * (self._high - self._low)).astype(self._dtype)


def rescaled(action: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The same in torch, for simulators that take tensors: on the device of the bounds."""
    return low + 0.5 * (action.to(low).clamp(-1.0, 1.0) + 1.0) * (high - low)


Rows = Tensor | np.ndarray


def autoreset(
    obs: Mapping[str, Rows],
    reward: Rows,
    terminated: Rows,
    truncated: Rows,
    info: dict[str, Any],
    reset_envs: Callable[[Tensor], Mapping[str, Rows]],
) -> Step:
    """Make a Step of what a simulator returned *before* any reset: resets what ended, keeps the final observations.

    Environments that returned NaN, Inf or a reward out of range are reset too, and marked invalid. `reset_envs` takes
    the indices of environments and returns their first observations.
    """
    final_obs = to_tensors(obs)
    rewards = _copy(reward, torch.float32)
    valid = usable_reward(rewards)  # of the float32 values: what overflows on the way is no number either
    for rows in final_obs.values():
        valid &= torch.isfinite(rows).flatten(1).all(1)
    ended = _copy(terminated, torch.bool), _copy(truncated, torch.bool)
    over = (ended[0] | ended[1] | ~valid).nonzero()[:, 0]
    next_obs = final_obs
    if len(over):
        info = {name: _kept(value) for name, value in info.items()}
        fresh = first_obs(reset_envs(over))
        next_obs = {group: rows.clone() for group, rows in final_obs.items()}
        for group, rows in fresh.items():
            next_obs[group][over] = rows
    return Step(next_obs, rewards, ended[0], ended[1], final_obs, valid, with_success(info))


def with_success(info: dict[str, Any]) -> dict[str, Any]:
    """Simulators have several words for it; evaluation knows one."""
    found = next((info[name] for name in ("success", "is_success", "solved") if name in info), None)
    return info if found is None else info | {"success": found}


def _kept(value: Any) -> Any:
    """A copy of numbers in info: a reset may write into the same memory."""
    return value.clone() if isinstance(value, Tensor) else value.copy() if isinstance(value, np.ndarray) else value


def _copy(x: Rows, dtype: torch.dtype) -> Tensor:
    """Simulators reuse their buffers."""
    return torch.as_tensor(x).to(dtype, copy=True)


def to_tensors(obs: Mapping[str, Rows]) -> Obs:
    """Copies, float32; images stay uint8."""
    return {group: _copy(rows, torch.uint8 if group == "pixels" else torch.float32) for group, rows in obs.items()}


def first_obs(obs: Mapping[str, Rows]) -> Obs:
    """Observations of a reset: there is nothing to fall back to, so they must be finite."""
    tensors = to_tensors(obs)
    for group, rows in tensors.items():
        if not torch.isfinite(rows).all():
            raise BadSimulation(
                f"the simulator returned NaN or Inf in the '{group}' observation right after a reset, so there is nothing to act "
                "on. Check the environment's reset, or its model's initial state."
            )
    return tensors
