"""Checksums: what was written is what is read, or the difference is noticed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

MALFORMED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError)
"""What code raises that is given a value of another type, size or nesting than it expects. RecursionError is a
RuntimeError."""
CHECKSUM = "sha256"
"""The key of the checksum in `seal_readable`."""


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fault_of(path: Path, digest: str) -> str | None:
    """What is wrong with a file that should have this digest; None if nothing is."""
    try:
        if not path.is_file():  # a pipe or a device would never end
            return f"{path.name} is missing"
        return None if digest_of(path) == digest else f"the checksum of {path.name} is wrong (truncated or changed)"
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror})"


def seal(content: dict[str, Any]) -> str:
    """JSON whose second line is the checksum of the first."""
    body = json.dumps(content)
    return f"{body}\n{hashlib.sha256(body.encode()).hexdigest()}\n"


def unseal(text: str) -> dict[str, Any]:
    """The inverse of `seal`; raises ValueError if the text has changed or is no JSON object."""
    body, _, digest = text.partition("\n")
    if hashlib.sha256(body.encode()).hexdigest() != digest.strip():
        raise ValueError("its checksum is wrong")
    return parse_object(body)


def seal_readable(content: dict[str, Any]) -> str:
    """JSON for people to read, with a checksum of all the rest as its last value."""
    return json.dumps(content | {CHECKSUM: _canonical_digest(content)}, indent=2) + "\n"


def unseal_readable(text: str) -> tuple[dict[str, Any], bool]:
    """The content without its checksum, and whether it had one; raises ValueError if the content has changed."""
    content = parse_object(text)
    digest = content.pop(CHECKSUM, None)
    if digest is not None and digest != _canonical_digest(content):
        raise ValueError("its checksum is wrong")
    return content, digest is not None


def parse_object(text: str) -> dict[str, Any]:
    """A JSON object; raises ValueError for anything else, however deep it is nested."""
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    return content


def _canonical_digest(content: dict[str, Any]) -> str:
    try:
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
