"""Settings from Python as the command line reads them, and checks of their values."""

from __future__ import annotations

import dataclasses
import numbers
import operator
import os
import typing
from typing import Any, Literal, TypeVar

from flashsac.config.schema import TrainConfig
from flashsac.errors import FlashSACError
from flashsac.system.limits import flag, problems

Settings = TypeVar("Settings")


def coerce(config: Settings, prefix: str = "--") -> Settings:
    """Give values from Python the types that the command line gives: 2e4 becomes a whole number, a path becomes text.

    A value that cannot be of its field's type is an error."""
    changes: dict[str, Any] = {}
    for name, kind in typing.get_type_hints(type(config)).items():
        value, spelled = getattr(config, name), flag(name, prefix)
        if dataclasses.is_dataclass(value):
            changes[name] = coerce(value, f"{spelled}.")
        elif isinstance(value, os.PathLike):
            changes[name] = os.fspath(value)
        elif kind in (int, int | None) and value is not None:
            try:
                changes[name] = operator.index(int(value) if isinstance(value, float) and value.is_integer() else value)
            except TypeError as error:
                raise FlashSACError(f"{spelled} must be a whole number, not {value!r:.60}.") from error
        elif wrong := _wrong_kind(kind, value):
            raise FlashSACError(f"{spelled} must be {wrong}, not {value!r:.60}.")
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def _wrong_kind(kind: Any, value: Any) -> str | None:
    """What a value should be but is not; None if it is."""
    if kind is float:
        return None if isinstance(value, numbers.Real) and not isinstance(value, bool) else "a number"
    if kind is bool:
        return None if value in (True, False) else "true or false"
    if kind in (str, str | None):
        return None if isinstance(value, str) or (value is None and kind is not str) else "text"
    if kind == tuple[str, ...]:
        right = isinstance(value, tuple | list) and all(isinstance(item, str) for item in value)
        return None if right else "a list of texts"
    return None


def check(config: TrainConfig) -> None:
    """Raise an error that names every value that cannot work. The fields of config/schema.py declare their limits."""
    found = problems(config)
    found += _wrong_choices(config, "--")
    if found:
        raise FlashSACError("; ".join(found) + ".")


def with_time_to_learn(config: TrainConfig) -> TrainConfig:
    """Shorten a warm-up that would last the whole run to half of it, so that a short trial learns too."""
    if config.steps > config.agent.warmup:
        return config
    return dataclasses.replace(config, agent=dataclasses.replace(config.agent, warmup=config.steps // 2))


def _wrong_choices(config: Any, prefix: str) -> list[str]:
    """One sentence per value outside its field's Literal. The command line refuses these itself, Python does not."""
    found = []
    for name, kind in typing.get_type_hints(type(config)).items():
        value, spelled = getattr(config, name), flag(name, prefix)
        if dataclasses.is_dataclass(value):
            found += _wrong_choices(value, f"{spelled}.")
        elif typing.get_origin(kind) is Literal and value not in typing.get_args(kind):
            found.append(f"{spelled} must be one of {', '.join(typing.get_args(kind))}, not {value!r:.60}")
    return found
