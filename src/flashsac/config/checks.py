"""Settings from Python as the command line would have read them, and a refusal of those that cannot work."""

from __future__ import annotations

import dataclasses
import operator
import os
import typing
from typing import Any, Literal, TypeVar

from flashsac.config.schema import TrainConfig
from flashsac.errors import FlashSACError

Settings = TypeVar("Settings")


def plain(config: Settings, prefix: str = "--") -> Settings:
    """Settings from Python as the command line would have read them: 2e4 steps as a whole number, a path as text."""
    changes: dict[str, Any] = {}
    for name, kind in typing.get_type_hints(type(config)).items():
        value, flag = getattr(config, name), prefix + name.replace("_", "-")
        if dataclasses.is_dataclass(value):
            changes[name] = plain(value, f"{flag}.")
        elif isinstance(value, os.PathLike):
            changes[name] = os.fspath(value)
        elif kind in (int, int | None) and value is not None:
            try:
                changes[name] = operator.index(int(value) if isinstance(value, float) and value.is_integer() else value)
            except TypeError as error:
                raise FlashSACError(f"{flag} must be a whole number, not {value!r}.") from error
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def check(config: TrainConfig) -> None:
    """Refuse numbers that cannot work, before anything is made with them."""
    agent, problems = config.agent, []
    at_least_one = {
        "--steps": config.steps,
        "--keep-checkpoints": config.keep_checkpoints,
        "--env.num-envs": config.env.num_envs,
        "--replay.capacity": config.replay.capacity,
        "--eval.episodes": config.eval.episodes,
        "--agent.n-step": agent.n_step,
        "--agent.actor-width": agent.actor_width,
        "--agent.critic-width": agent.critic_width,
        "--agent.blocks": agent.blocks,
        "--agent.critics": agent.critics,
        "--agent.actor-delay": agent.actor_delay,
        "--agent.noise-max-repeat": agent.noise_max_repeat,
        "--agent.image-channels": agent.image_channels,
        "--agent.image-features": agent.image_features,
        "--agent.context-latent": agent.context_latent,
        "--env.frame-stack": config.env.frame_stack,
    }
    problems += [f"{name} must be at least 1, not {value}" for name, value in at_least_one.items() if value < 1]
    for name, value in (("--agent.batch-size", agent.batch_size), ("--agent.atoms", agent.atoms)):
        problems += [f"{name} must be at least 2, not {value}"] if value < 2 else []
    positive = {
        "--agent.updates-per-transition": agent.updates_per_transition,
        "--agent.learning-rate": agent.learning_rate,
        "--agent.initial-temperature": agent.initial_temperature,
        "--agent.target-std": agent.target_std,
        "--agent.value-max": agent.value_max,
    }
    problems += [f"{name} must be above 0, not {value:g}" for name, value in positive.items() if not value > 0]
    if not 0 <= config.seed < 2**31:
        problems.append(f"--seed must lie in 0 to {2**31 - 1:,}, not {config.seed}")
    if 0 < config.steps <= agent.warmup:
        problems.append(
            f"--steps {config.steps:,} end before learning begins, after --agent.warmup {agent.warmup:,} random ones: take more "
            "steps, or warm up less"
        )
    at_least_zero = {
        "--log-every": config.log_every,
        "--checkpoint-every": config.checkpoint_every,
        "--eval.every": config.eval.every,
        "--env.history": config.env.history,
        "--agent.image-shift": agent.image_shift,
    }
    problems += [f"{name} must be at least 0, not {value}" for name, value in at_least_zero.items() if (value or 0) < 0]
    if not 0 <= agent.discount < 1:
        problems.append(f"--agent.discount must lie in [0, 1), not {agent.discount:g}")
    problems += _wrong_choices(config, "--")
    if problems:
        raise FlashSACError("; ".join(problems) + ".")


def _wrong_choices(config: Any, prefix: str) -> list[str]:
    """Values outside a field's Literal, which nobody stops when they come from Python."""
    problems = []
    for name, kind in typing.get_type_hints(type(config)).items():
        value, flag = getattr(config, name), prefix + name.replace("_", "-")
        if dataclasses.is_dataclass(value):
            problems += _wrong_choices(value, f"{flag}.")
        elif typing.get_origin(kind) is Literal and value not in typing.get_args(kind):
            problems.append(f"{flag} must be one of {', '.join(typing.get_args(kind))}, not {value!r}")
    return problems
