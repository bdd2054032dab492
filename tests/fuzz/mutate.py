"""Bytes that are almost right: what a fuzzing target is fed with."""

from __future__ import annotations

import importlib
import json
import random
from pathlib import Path
from types import ModuleType
from typing import Any

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 255, 2**31, 2**53, 2**63, 10**9, 10**30, -(10**30), 0.0, -0.0, 0.5, 1e-300, 1e300, float("nan"),
    float("inf"), -float("inf"), "", "x", "\0", "../x", "/dev/zero", "a" * 5000, "\ud800", [], {}, [0], [[]], [None, "x"],
    {"dict": {}}, {"list": []}, {"value": 1}, {"tensor": "/x"}, {"x": {"y": [1, 2, {"z": None}]}},
]  # fmt: skip
"""What a number or a text of a JSON file is replaced by."""


def targets() -> dict[str, ModuleType]:
    """All fuzzing targets by name: the files of this folder that define `attack`."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if "def attack" in path.read_text())
    return {name: importlib.import_module(f"tests.fuzz.{name}") for name in names if name != Path(__file__).stem}


def mutate(data: bytes, source: random.Random) -> bytes:
    """One to four changes of the bytes, or of the values where they are JSON."""
    for _ in range(source.choice((1, 1, 1, 2, 4))):
        changed = _mutate_json(data, source) if source.random() < 0.6 else None
        data = changed if changed is not None else _mutate_bytes(data, source)
    return data


def _mutate_bytes(data: bytes, source: random.Random) -> bytes:
    if not data:
        return source.randbytes(source.randrange(20))
    first, second = sorted(source.randrange(len(data) + 1) for _ in range(2))
    match source.randrange(8):
        case 0 | 1:  # a flipped bit
            place = source.randrange(len(data))
            return data[:place] + bytes([data[place] ^ 1 << source.randrange(8)]) + data[place + 1 :]
        case 2:  # cut out
            return data[:first] + data[second:]
        case 3:  # cut off
            return data[:first]
        case 4:  # doubled
            return data[:second] + data[first:]
        case 5:  # a splice from elsewhere
            other = source.randrange(len(data))
            return data[:first] + data[other : other + source.randrange(64)] + data[second:]
        case 6:  # noise
            return data[:first] + source.randbytes(source.randrange(32)) + data[min(second, first + 32) :]
        case _:  # a value, as text
            text = json.dumps(source.choice(VALUES)).encode()
            deep = source.choice((text, text, b"[" * 2000, b'{"a":' * 2000, b"-", b",", b'"', b"1e999", b"9" * 5000))
            return data[:first] + deep + data[min(second, first + 8) :]


def _mutate_json(data: bytes, source: random.Random) -> bytes | None:
    """One value of a JSON text replaced, removed or doubled; None if it is no JSON."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return None
    places: list[tuple[Any, Any]] = []
    unseen = [tree]
    while unseen:
        node = unseen.pop()
        children = (
            list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
        )
        places += [(node, key) for key, _ in children]
        unseen += [child for _, child in children]
    if not places:
        return json.dumps(source.choice(VALUES)).encode()
    node, key = source.choice(places)
    other, other_key = source.choice(places)
    match source.randrange(5):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[source.choice(("", "x", "../x", "id", "agent", str(key) + "x"))] = node.pop(key)
        case 2:
            node[key] = json.loads(json.dumps(other[other_key]))
        case _:
            node[key] = source.choice(VALUES)
    try:
        return json.dumps(tree, indent=source.choice((None, 2))).encode()
    except (ValueError, RecursionError):
        return None
