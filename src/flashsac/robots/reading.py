"""Dataclasses from JSON that somebody else may have written: every value has the declared type, or it is refused."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from typing import Any, Literal, TypeVar

from flashsac.errors import FlashSACError

Made = TypeVar("Made")

LONGEST_TEXT = 1_000_000
"""Characters of JSON that are read."""
LARGEST_INT = 2**63
LONGEST_LIST = 1000
"""Items of one list. No robot has more joints, no observation more terms."""


def read_json(text: str) -> Any:
    """The JSON's value. Whatever cannot be read raises ValueError."""
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"{len(text):,} characters are too many")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def build(kind: type[Made], values: Any, where: str = "") -> Made:
    """The dataclass `kind` with these values. A ValueError names the field's place, as in `joints.3.damping`."""
    if not isinstance(values, dict):
        raise ValueError(f"{where or 'it'} must be an object, not {_shown(values)}")
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    needed = {
        name
        for name, field in fields.items()
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    }
    for problem, names in (("is missing", needed - set(values)), ("is unknown", set(values) - set(fields))):
        if names:
            raise ValueError(f"{_place(where, _shown(min(names)))} {problem}")
    try:
        return kind(**{name: _value(hints[name], value, _place(where, name)) for name, value in values.items()})
    except FlashSACError as error:  # the dataclass checks its numbers itself
        raise ValueError(f"{where}: {error}".removeprefix(": ").rstrip(".")) from None


def _value(kind: Any, value: Any, where: str) -> Any:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _value(parts[0], value, where)
    if origin in (typing.Union, types.UnionType):  # X | None is the only one
        return None if value is None else _value(parts[0], value, where)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return build(kind, value, where)
    if origin is Literal and isinstance(value, str) and value in parts:
        return value
    if origin in (tuple, list) and isinstance(value, list) and len(value) <= LONGEST_LIST:
        kinds = parts if origin is tuple and parts[-1] is not ... else parts[:1] * len(value)
        if len(kinds) == len(value):
            return origin(_value(part, item, f"{where}.{i}") for i, (part, item) in enumerate(zip(kinds, value)))  # noqa: B905
    if origin is dict and isinstance(value, dict):
        return {name: _value(parts[1], item, _place(where, _shown(name))) for name, item in value.items()}
    if kind is str and isinstance(value, str):
        return value
    if type(value) is int and abs(value) > LARGEST_INT:  # neither a float nor a check of limits takes it
        raise ValueError(f"{where} is too large a number")
    if kind is int and type(value) is int:  # True is no number here
        return value
    if kind is float and type(value) in (int, float):
        return float(value)
    raise ValueError(f"{where} must not be {_shown(value)}")


def _place(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _shown(value: Any) -> str:
    shown = value if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
