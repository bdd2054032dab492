"""The whole contract between a simulator and the trainer: `VecEnv`, the helpers adapters share, and `check_env`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from flashsac.errors import BadSimulation, UnsupportedSpace
from flashsac.types import EnvSpec, Obs, Step


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
        """Everything needed to go on bit for bit, of plain values and arrays; only where spec.can_save_state."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Go on from there. False if the simulator turned out not to be reproducible: the caller must reset."""
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


class Unsaved:
    """For simulators whose state cannot be saved: a resumed run begins new episodes."""

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
            "[-1, 1] and rescales to finite bounds, so say which actions make sense: gymnasium.wrappers.TransformAction(env, "
            "lambda action: action, gymnasium.spaces.Box(-1.0, 1.0, env.action_space.shape)) for those of -1 to 1."
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

    Environments that returned NaN or Inf are reset too, and marked invalid. `reset_envs` takes the indices of environments
    and returns their first observations.
    """
    final_obs = to_tensors(obs)
    rewards = _copy(reward, torch.float32)
    valid = torch.isfinite(rewards)  # of the float32 values: what overflows on the way is no number either
    for rows in final_obs.values():
        valid &= torch.isfinite(rows).flatten(1).all(1)
    ended = _copy(terminated, torch.bool), _copy(truncated, torch.bool)
    over = (ended[0] | ended[1] | ~valid).nonzero()[:, 0]
    next_obs = final_obs
    if len(over):
        fresh = first_obs(reset_envs(over))
        next_obs = {group: rows.clone() for group, rows in final_obs.items()}
        for group, rows in fresh.items():
            next_obs[group][over] = rows
    return Step(next_obs, rewards, ended[0], ended[1], final_obs, valid, with_success(info))


def with_success(info: dict[str, Any]) -> dict[str, Any]:
    """Simulators have several words for it; evaluation knows one."""
    found = next((info[name] for name in ("success", "is_success", "solved") if name in info), None)
    return info if found is None else info | {"success": found}


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


def check_env(env: VecEnv, steps: int = 50, seed: int = 0) -> None:
    """Raise AssertionError, saying what is wrong, unless the adapter keeps the contract. Leaves the environment usable."""
    spec = env.spec
    generator = torch.Generator().manual_seed(seed)
    assert "actor" in spec.obs or spec.pixels, "spec.obs has no 'actor' group, and there are no pixels"
    assert len(spec.action_low) == len(spec.action_high) == spec.action_dim, "action bounds do not match action_dim"

    def check_obs(obs: Obs, name: str) -> None:
        assert set(obs) == set(spec.groups), f"{name} has groups {sorted(obs)}, spec says {sorted(spec.groups)}"
        for group, rows in obs.items():
            shape, dtype = spec.groups[group]
            expected = (spec.num_envs, *shape)
            assert tuple(rows.shape) == expected, (
                f"{name}['{group}'] has shape {tuple(rows.shape)}, spec says {expected}"
            )
            assert rows.dtype == dtype, f"{name}['{group}'] is {rows.dtype}, must be {dtype}"
            assert rows.device.type == spec.device.type, (
                f"{name}['{group}'] is on {rows.device}, spec says {spec.device}"
            )
            assert torch.isfinite(rows).all(), f"{name}['{group}'] is not finite"

    def rollout() -> list[tuple[Obs, Step]]:
        generator.manual_seed(seed)
        obs, history = env.reset(seed), []
        check_obs(obs, "reset()")
        for _ in range(steps):
            step = env.step(2 * torch.rand(spec.num_envs, spec.action_dim, generator=generator) - 1)
            history.append((obs, step))
            obs = step.obs
        return history

    first = rollout()
    copies = [(({k: v.clone() for k, v in obs.items()}), step.reward.clone()) for obs, step in first]
    for _, step in first:
        check_obs(step.obs, "step.obs")
        check_obs(step.final_obs, "step.final_obs")
        for name, dtype in (
            ("reward", torch.float32),
            ("terminated", torch.bool),
            ("truncated", torch.bool),
            ("valid", torch.bool),
        ):
            value = getattr(step, name)
            assert tuple(value.shape) == (spec.num_envs,), f"step.{name} has shape {tuple(value.shape)}"
            assert value.dtype == dtype, f"step.{name} is {value.dtype}, must be {dtype}"
        running = ~(step.terminated | step.truncated) & step.valid
        for group in spec.groups:
            same = step.obs[group][running] == step.final_obs[group][running]
            assert same.all(), f"step.obs['{group}'] differs from final_obs although no episode ended"
            ended = step.terminated | step.truncated
            if ended.any():
                moved = (step.obs[group][ended] != step.final_obs[group][ended]).any()
                assert moved, f"final_obs['{group}'] of ended episodes is the reset observation: the true one is lost"
    second = rollout()
    for (obs, step), (obs_copy, reward_copy), (obs2, step2) in zip(first, copies, second, strict=True):
        for group in spec.groups:
            assert torch.equal(obs[group], obs_copy[group]), f"'{group}' buffers are reused by a later step: clone them"
            assert torch.equal(obs[group], obs2[group]), f"the same seed gives other '{group}' observations"
        assert torch.equal(step.reward, reward_copy), "the reward buffer is reused by a later step: clone it"
        assert torch.equal(step.reward, step2.reward), "the same seed gives other rewards"
    if spec.can_save_state:
        state = env.state_dict()
        action = torch.zeros(spec.num_envs, spec.action_dim)
        after = env.step(action)
        assert env.load_state_dict(state), "load_state_dict() says that the simulator is not reproducible"
        again = env.step(action)
        assert torch.equal(after.reward, again.reward), "the reward differs after load_state_dict()"
        for group in spec.groups:
            assert torch.equal(after.obs[group], again.obs[group]), f"'{group}' differs after load_state_dict()"
