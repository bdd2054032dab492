"""rsl_rl's VecEnv: whatever was made for that library trains with FlashSAC too (Isaac Lab's and mjlab's wrappers, and
many others).

Such environments reset inside `step` and return the first observation of the new episode. The final observation of the
old one is lost, unless `extras` carry all groups of it ("final_obs", "terminal_observation"). Without it
- a terminated transition is kept: nothing is bootstrapped from it, and the last observation seen stands in for the
  final one;
- a transition cut off by a time limit is marked invalid and dropped: it would have to be bootstrapped from what nobody
  knows. (PPO in rsl_rl bootstraps from the observation before it; an off-policy learner would meet that error again and
  again.)

Actions are passed on in [-1, 1] as they are, or times the wrapper's `clip_actions` where it has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashsac.errors import RenderError, UnsupportedSpace
from flashsac.sims.base import Unsaved, first_obs, to_tensors
from flashsac.types import EnvSpec, Obs, Step, usable_reward

_ACTOR_GROUPS = ("actor", "policy")
"""What rsl_rl 4 and later call the actor's group, and what 3 and before did."""
_FINAL_OBS = ("final_obs", "terminal_observation")


def speaks_rsl_rl(env: Any) -> bool:
    """True for an object with rsl_rl's interface, of any version."""
    return all(hasattr(env, part) for part in ("num_envs", "num_actions", "get_observations", "step"))


class RslRlVecEnv(Unsaved):
    """Environments that already speak rsl_rl's VecEnv, as ours. There is no second batch of them to evaluate or to film
    on."""

    def __init__(self, env: Any):
        self._env = env
        clip = getattr(env, "clip_actions", None)
        self._bound = 1.0 if clip is None else float(clip)
        self._obs = self._current_obs()
        self.spec = EnvSpec(
            num_envs=env.num_envs,
            obs={group: rows.shape[1] for group, rows in self._obs.items()},
            action_dim=env.num_actions,
            action_low=(-self._bound,) * env.num_actions,
            action_high=(self._bound,) * env.num_actions,
            max_episode_steps=int(torch.as_tensor(env.max_episode_length).max()),
            device=torch.device(env.device),
            metrics=_logged(env),
        )
        self._usable = torch.ones(env.num_envs, dtype=torch.bool, device=self.spec.device)

    def reset(self, seed: int) -> Obs:
        # Neither is part of rsl_rl's interface, but the wrappers have both. Without them training begins where the
        # environments are.
        for method, arguments in (("seed", (seed,)), ("reset", ())):
            if hasattr(self._env, method):
                getattr(self._env, method)(*arguments)
        self._obs = first_obs(self._current_obs())
        self._usable = torch.ones_like(self._usable)
        return self._obs

    def _current_obs(self) -> Obs:
        found = self._env.get_observations()
        obs, extras = found if isinstance(found, tuple) else (found, {})  # rsl_rl 2 returns both
        privileged = getattr(self._env, "get_privileged_observations", lambda: None)()  # rsl_rl 1
        return to_tensors(_choose(_by_name(obs, extras, privileged)))

    def step(self, action: Tensor) -> Step:
        native = action.to(self.spec.device).clamp(-1.0, 1.0) * self._bound
        raw, *privileged, reward, done, extras = self._env.step(native)  # rsl_rl 1 returns five things, later ones four
        obs = to_tensors(_choose(_by_name(raw, extras, *privileged)))
        reward = reward.to(torch.float32, copy=True)
        ended = done.to(torch.bool, copy=True)
        timed_out = extras.get("time_outs")
        truncated = ended & timed_out.to(ended) if timed_out is not None else torch.zeros_like(ended)

        found = _final_obs(extras, obs.keys())
        last = self._obs if found is None else found
        final_obs = {group: torch.where(ended[:, None], last[group], rows) for group, rows in obs.items()}
        valid = self._usable & usable_reward(reward) & _finite(final_obs)
        if found is None:
            valid &= ~truncated
        # NaN cannot be acted on, and these environments cannot be reset one by one: nothing counts until they do it
        # themselves.
        self._usable = _finite(obs)
        self._obs = {group: torch.nan_to_num(rows, 0.0, 0.0, 0.0) for group, rows in obs.items()}
        final_obs = {group: torch.nan_to_num(rows, 0.0, 0.0, 0.0) for group, rows in final_obs.items()}
        return Step(
            self._obs,
            reward,
            ended & ~truncated,
            truncated,
            final_obs,
            valid,
            _log(extras, self.spec.metrics),
        )

    def render(self) -> np.ndarray:
        raise RenderError(
            "rsl_rl's environments have no common way to draw. Use the simulator's own viewer, or train by task name."
        )

    def close(self) -> None:
        """It was handed to us open: whoever made it closes it."""


def _logged(env: Any) -> tuple[str, ...]:
    """The names that `env.metrics` declares, or those that `extras["log"]` ("episode" in older ones) holds after the
    first reset."""
    if isinstance(declared := getattr(env, "metrics", None), tuple | list):
        return tuple(declared)
    extras = getattr(env, "extras", None) or getattr(getattr(env, "unwrapped", None), "extras", None) or {}
    return tuple(_log(extras))


def _log(extras: Mapping[str, Any], names: Sequence[str] | None = None) -> dict[str, Any]:
    """The numbers in `extras["log"]`, one for each environment or one for all. "success" for all is no episode's
    success."""
    found = extras.get("log") or extras.get("episode") or {}
    numbers = {name: value for name, value in found.items() if isinstance(value, int | float | np.number | Tensor)}
    return {
        name: value
        for name, value in numbers.items()
        if (names is None or name in names) and (name != "success" or np.ndim(value))
    }


def _by_name(obs: Any, extras: Mapping[str, Any], privileged: Tensor | None = None) -> dict[str, Any]:
    """All groups of observations: rsl_rl 3 and later return a TensorDict, 2 has the others in extras, 1 has two
    tensors."""
    if hasattr(obs, "keys"):
        return {name: obs[name] for name in obs.keys()}  # noqa: SIM118 (a TensorDict iterates over its rows)
    named = {**extras.get("observations", {}), "policy": obs}
    return named if privileged is None else {**named, "critic": privileged}


def _final_obs(extras: Mapping[str, Any], groups: Set[str]) -> Obs | None:
    """What the episodes ended in, if extras show all of it: a tensor alone does not say what the critic would have
    seen."""
    found = next((extras[key] for key in _FINAL_OBS if extras.get(key) is not None), None)
    named = {} if found is None else _by_name(found, {})
    shown = {"actor" if name in _ACTOR_GROUPS else name for name in named}
    return to_tensors(_choose(named)) if groups <= shown else None


def _choose(named: Mapping[str, Any]) -> dict[str, Tensor]:
    actor = next((name for name in _ACTOR_GROUPS if name in named), None)
    if actor is None:
        raise UnsupportedSpace(
            f"the environment's observation groups are {', '.join(sorted(named))}, but none is called 'actor' or 'policy'. Rename the "
            "one that the actor may see; 'critic' is what only the critic may see."
        )
    chosen = {"actor": named[actor]} | ({"critic": named["critic"]} if "critic" in named else {})
    for group, rows in chosen.items():
        if not isinstance(rows, Tensor) or rows.ndim != 2:
            raise UnsupportedSpace(
                f"the observation group '{group}' is a {type(rows).__name__} of shape {getattr(rows, 'shape', '?')}; this version "
                "trains from state vectors, one row for each environment. Concatenate the group's terms, and leave images out."
            )
    return chosen


def _finite(obs: Obs) -> Tensor:
    return torch.stack([torch.isfinite(rows).all(1) for rows in obs.values()]).all(0)
