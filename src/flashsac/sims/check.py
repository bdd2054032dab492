"""The check that an adapter keeps the contract of `VecEnv`, as far as it shows from outside. A lying simulator
passes."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from flashsac.sims.base import VecEnv
from flashsac.types import EnvSpec, Obs, Step

NUMBERS = {"reward": torch.float32, "terminated": torch.bool, "truncated": torch.bool, "valid": torch.bool}
"""One for each environment."""


FEWEST_STEPS = 50
"""Steps of a check of an environment whose episodes are shorter."""
MOST_STEPS = 1200
"""Enough for the time limit of most tasks, 1000 steps."""
MOST_BYTES = 2**30
"""Memory that the steps of a check may take. Many environments, or images, are checked for fewer steps."""


class Moment(NamedTuple):
    """A step, the observation before it, and what both looked like at the time."""

    obs: Obs
    step: Step
    then: dict[str, Tensor]


def check_env(env: VecEnv, steps: int | None = None, seed: int = 0) -> None:
    """Raise AssertionError, saying what is wrong, unless the adapter keeps the contract. The environment stays usable.

    By default the check runs past the environment's time limit, so that it sees episodes end. Without a known limit it
    runs until one has ended. A shorter limit (`max_episode_steps`) makes it faster.
    """
    spec = env.spec
    assert "actor" in spec.obs or spec.pixels, "spec.obs has no 'actor' group, and there are no pixels"
    assert len(spec.action_low) == len(spec.action_high) == spec.action_dim, "action bounds do not match action_dim"
    until_end = steps is None and spec.max_episode_steps is None
    first = _rollout(env, _steps(spec) if steps is None else steps, seed, until_end=until_end)
    steps = len(first)
    for moment in first:
        _check_shapes(moment, spec)
        for name, value in _parts(moment.obs, moment.step).items():
            assert torch.equal(value, moment.then[name]), f"the buffer of {name} is reused by a later step: clone it"
        _check_ends(moment.step)
    if not any((moment.step.terminated | moment.step.truncated).any() for moment in first):
        warnings.warn(_unseen_end(spec, steps), stacklevel=2)
    for moment, again in zip(first, _rollout(env, steps, seed), strict=True):
        for name, value in again.then.items():
            assert torch.equal(value, moment.then[name]), f"the same seed gives another {name}"
    if spec.can_save_state:
        _check_saving(env)


def _steps(spec: EnvSpec) -> int:
    """How many steps to check: past the time limit, as far as time and memory allow."""
    wanted = MOST_STEPS if spec.max_episode_steps is None else spec.max_episode_steps + 5
    observation = sum(math.prod(shape) * dtype.itemsize for shape, dtype in spec.groups.values())
    # A moment holds three observations and a copy of each, and there are two rollouts.
    fit = MOST_BYTES // (2 * 6 * spec.num_envs * max(1, observation))
    return max(FEWEST_STEPS, min(wanted, MOST_STEPS, fit))


def _unseen_end(spec: EnvSpec, steps: int) -> str:
    """The warning that final observations stayed unchecked, and what to do about it."""
    unseen, limit = (
        f"no episode ended within {steps} steps, so final observations stayed unchecked",
        spec.max_episode_steps,
    )
    if limit is None:
        return f"{unseen}. The environment names no time limit: set max_episode_steps, or check more steps (steps=N)."
    if limit > steps:
        return (
            f"{unseen}. The time limit is {limit} steps: set a shorter max_episode_steps, take fewer environments, or "
            f"check more steps (steps={limit + 5})."
        )
    return f"{unseen}. The time limit is {limit} steps, but no episode was truncated: the adapter must set `truncated`."


def _rollout(env: VecEnv, steps: int, seed: int, *, until_end: bool = False) -> list[Moment]:
    """Return so many steps of random actions; with `until_end` fewer, once an episode has ended."""
    generator = torch.Generator().manual_seed(seed)
    obs, moments, ended = env.reset(seed), [], False
    for count in range(steps):
        if until_end and ended and count >= FEWEST_STEPS:
            break
        action = 2 * torch.rand(env.spec.num_envs, env.spec.action_dim, generator=generator) - 1
        step = env.step(action.to(env.spec.device))
        moments.append(Moment(obs, step, {name: value.clone() for name, value in _parts(obs, step).items()}))
        ended = ended or bool((step.terminated | step.truncated).any())
        obs = step.obs
    return moments


def _parts(obs: Obs, step: Step) -> dict[str, Tensor]:
    """Every tensor, by the name it has in messages."""
    parts = {f"step.{name}": getattr(step, name) for name in NUMBERS}
    for kind, some in (("obs", obs), ("step.obs", step.obs), ("step.final_obs", step.final_obs)):
        parts |= {f"{kind}['{group}']": rows for group, rows in some.items()}
    return parts


def _check_shapes(moment: Moment, spec: EnvSpec) -> None:
    step = moment.step
    for kind, obs in (("obs", moment.obs), ("step.obs", step.obs), ("step.final_obs", step.final_obs)):
        assert set(obs) == set(spec.groups), f"{kind} has groups {sorted(obs)}, spec says {sorted(spec.groups)}"
        for group, rows in obs.items():
            (shape, dtype), name = spec.groups[group], f"{kind}['{group}']"
            expected = (spec.num_envs, *shape)
            assert tuple(rows.shape) == expected, f"{name} has shape {tuple(rows.shape)}, spec says {expected}"
            assert rows.dtype == dtype, f"{name} is {rows.dtype}, must be {dtype}"
            assert rows.device.type == spec.device.type, f"{name} is on {rows.device}, spec says {spec.device}"
            assert torch.isfinite(rows).all(), f"{name} is not finite"
    for name, dtype in NUMBERS.items():
        value = getattr(step, name)
        assert tuple(value.shape) == (spec.num_envs,), f"step.{name} has shape {tuple(value.shape)}"
        assert value.dtype == dtype, f"step.{name} is {value.dtype}, must be {dtype}"


def _check_ends(step: Step) -> None:
    """Check the final observations: they differ from the next ones where an episode ended, and nowhere else."""
    ended = (step.terminated | step.truncated) & step.valid
    running = ~(step.terminated | step.truncated) & step.valid
    differs = torch.zeros_like(ended)
    for group, rows in step.obs.items():
        here = (rows != step.final_obs[group]).flatten(1).any(1)
        assert not here[running].any(), f"step.obs['{group}'] differs from final_obs although no episode ended"
        differs |= here
    lost = ended & ~differs
    assert not lost.any(), (
        f"final_obs of environment {lost.nonzero()[:1, 0].tolist()} is its reset observation: the true last one is lost"
    )


def _check_saving(env: VecEnv) -> None:
    state = env.state_dict()
    action = torch.zeros(env.spec.num_envs, env.spec.action_dim, device=env.spec.device)
    after = env.step(action)
    assert env.load_state_dict(state), "load_state_dict() says that the simulator is not reproducible"
    again = env.step(action)
    for name, value in _parts({}, after).items():
        assert torch.equal(value, _parts({}, again)[name]), f"{name} differs after load_state_dict()"
