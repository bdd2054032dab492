"""Settings of a sweep as the command line writes them: name=value, name=value,value,..., name=LOW..HIGH."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Any

from flashsac.cli.parsing import number, whole_number
from flashsac.errors import UsageError
from flashsac.experiments.settings import checked_names, kind_of
from flashsac.experiments.space import Choice, Space, read_range


def assignment(text: str, option: str, separator: str | None = None) -> tuple[str, Any]:
    """A setting and its value, or its values where they are separated."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{option} {text}: write name=value, for example {option} agent.target-std=0.1")
    (name,) = checked_names({name: None}, option)
    kind = kind_of(name)
    try:
        return name, [_value(part, kind) for part in value.split(separator)] if separator else _value(value, kind)
    except ValueError as error:
        raise UsageError(f"{option} {name}: {error}") from None


def _value(text: str, kind: Any) -> Any:
    """A value from the command line, of the type of its setting; ValueError for what is no number. The checks of a run
    refuse what does not fit."""
    if isinstance(kind, types.UnionType) and text.lower() == "none":
        return None
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    if int in kinds:
        return whole_number(text)
    if float in kinds:
        return number(text)
    if bool in kinds:
        return {"true": True, "on": True, "false": False, "off": False}.get(text.lower(), text)
    return [text] if typing.get_origin(kind) is tuple else text


def search_space(texts: Sequence[str]) -> Space:
    """What --search says."""
    space: Space = {}
    for text in texts:
        given = text.partition("=")[2]
        (name,) = checked_names({text.partition("=")[0]: None}, "--search")
        space[name] = read_range(name, given) or Choice(tuple(assignment(text, "--search", ",")[1]))
    return space
