"""The space of a search: for each setting a range, or a choice of values."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from flashsac.errors import FlashSACError
from flashsac.experiments.settings import kind_of

RANGE = re.compile(r"(?P<low>[-+\d.eE]+)\.\.(?P<high>[-+\d.eE]+)(?P<log>:log)?")


@dataclasses.dataclass(frozen=True)
class Range:
    """Every number between two ends, both included."""

    low: float
    high: float
    log: bool = False

    @property
    def ends(self) -> list[Any]:
        return [self.low, self.high]

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}{':log' if self.log else ''}"


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of several values."""

    values: tuple[Any, ...]

    @property
    def ends(self) -> list[Any]:
        return list(self.values)

    def __str__(self) -> str:
        return ", ".join(map(str, self.values))


Space = dict[str, Range | Choice]


def read_range(name: str, text: str) -> Range | None:
    """Read LOW..HIGH or LOW..HIGH:log; None for a text of another form."""
    match = RANGE.fullmatch(text)
    if match is None:
        return None
    try:
        low, high = float(match["low"]), float(match["high"])
    except ValueError:
        return None
    if kind_of(name) is int:
        low, high = int(low), int(high)
    if not low < high or (match["log"] and low <= 0):
        raise FlashSACError(f"search, {name}={text}: the lower end comes first, and is above 0 with :log.")
    return Range(low, high, bool(match["log"]))
