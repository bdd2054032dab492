"""Settings from Python as the command line reads them, and checks of their values."""

from __future__ import annotations

import dataclasses
import operator
import os
import typing
from typing import Any, Literal, TypeVar

from flashsac.config.schema import TrainConfig
from flashsac.errors import FlashSACError
from flashsac.system.limits import flag, problems

Settings = TypeVar("Settings")


def coerce(config: Settings, prefix: str = "--") -> Settings:
    """Give values from Python the types that the command line gives: 2e4 becomes a whole number, a path becomes text."""
    changes: dict[str, Any] = {}
    for name, kind in typing.get_type_hints(type(config)).items():
        value = getattr(config, name)
        if dataclasses.is_dataclass(value):
            changes[name] = coerce(value, f"{flag(name, prefix)}.")
        elif isinstance(value, os.PathLike):
            changes[name] = os.fspath(value)
        elif kind in (int, int | None) and value is not None:
            try:
                changes[name] = operator.index(int(value) if isinstance(value, float) and value.is_integer() else value)
            except TypeError as error:
                raise FlashSACError(f"{flag(name, prefix)} must be a whole number, not {value!r}.") from error
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def check(config: TrainConfig) -> None:
    """Raise an error that names every value that cannot work. The fields of config/schema.py declare their limits."""
    found = problems(config)
    if 0 < config.steps <= config.agent.warmup:
        found.append(
            f"--steps {config.steps:,} end before learning begins, after --agent.warmup {config.agent.warmup:,} random ones: "
            "take more steps, or warm up less"
        )
    found += _wrong_choices(config, "--")
    if found:
        raise FlashSACError("; ".join(found) + ".")


def _wrong_choices(config: Any, prefix: str) -> list[str]:
    """One sentence per value outside its field's Literal. The command line refuses these itself, Python does not."""
    found = []
    for name, kind in typing.get_type_hints(type(config)).items():
        value, spelled = getattr(config, name), flag(name, prefix)
        if dataclasses.is_dataclass(value):
            found += _wrong_choices(value, f"{spelled}.")
        elif typing.get_origin(kind) is Literal and value not in typing.get_args(kind):
            found.append(f"{spelled} must be one of {', '.join(typing.get_args(kind))}, not {value!r}")
    return found
