"""Limits of settings, declared beside the field that they limit: `steps: Annotated[int, AtLeast(1)] = 1000`."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Iterator
from typing import Any, Literal

from flashsac.errors import FlashSACError


@dataclasses.dataclass(frozen=True)
class AtLeast:
    """The smallest value allowed."""

    low: float

    def allows(self, value: float) -> bool:
        return value >= self.low

    def __str__(self) -> str:
        return f"be at least {_number(self.low)}"


@dataclasses.dataclass(frozen=True)
class AtMost:
    """The largest value allowed."""

    high: float

    def allows(self, value: float) -> bool:
        return value <= self.high

    def __str__(self) -> str:
        return f"be at most {_number(self.high)}"


@dataclasses.dataclass(frozen=True)
class Above:
    """A lower bound that is itself excluded."""

    low: float

    def allows(self, value: float) -> bool:
        return value > self.low

    def __str__(self) -> str:
        return f"be above {_number(self.low)}"


@dataclasses.dataclass(frozen=True)
class Between:
    """An interval. `ends` are its brackets: a square bracket includes the end, a round one excludes it."""

    low: float
    high: float
    ends: Literal["[)", "(]", "[]", "()"] = "[)"

    def allows(self, value: float) -> bool:
        included = (self.ends[0] == "[" and value == self.low) or (self.ends[1] == "]" and value == self.high)
        return included or self.low < value < self.high

    def __str__(self) -> str:
        return f"lie in {self.ends[0]}{_number(self.low)}, {_number(self.high)}{self.ends[1]}"


Limit = AtLeast | AtMost | Above | Between


def flag(name: str, prefix: str = "--") -> str:
    """The command line's spelling of a field: `num_envs` with prefix `--env.` gives `--env.num-envs`."""
    return prefix + name.replace("_", "-")


def problems(config: Any, prefix: str = "--") -> list[str]:
    """One sentence per violated limit of a dataclass and of the dataclasses in it. None is never limited.

    Every limit refuses NaN and infinity."""
    found = []
    for name, kind in typing.get_type_hints(type(config), include_extras=True).items():
        value, spelled = getattr(config, name), flag(name, prefix)
        if dataclasses.is_dataclass(value):
            found += problems(value, f"{spelled}.")
        elif value is not None:
            broken = [limit for limit in _limits(kind) if not (_finite(value) and limit.allows(value))]
            found += [f"{spelled} must {limit}, not {_number(value)}" for limit in broken]
    return found


def check_limits(config: Any, prefix: str = "--") -> None:
    """Raise an error that names every violated limit."""
    if found := problems(config, prefix):
        raise FlashSACError("; ".join(found) + ".")


def _limits(kind: Any) -> Iterator[Limit]:
    """The limits in an annotation, also inside a union: `Annotated[int, AtLeast(1)] | None`."""
    if typing.get_origin(kind) is typing.Annotated:
        yield from (note for note in kind.__metadata__ if isinstance(note, Limit))
    else:
        for part in typing.get_args(kind):
            yield from _limits(part)


def _finite(value: float) -> bool:
    return isinstance(value, int) or math.isfinite(value)  # a whole number may be too large for a float


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
