"""Checksums: what was written is what is read, or the difference is noticed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fault_of(path: Path, digest: str) -> str | None:
    """What is wrong with a file that should have this digest; None if nothing is."""
    if not path.exists():
        return f"{path.name} is missing"
    try:
        return None if digest_of(path) == digest else f"the checksum of {path.name} is wrong (truncated or changed)"
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror})"


def seal(content: dict[str, Any]) -> str:
    """JSON whose second line is the checksum of the first."""
    body = json.dumps(content)
    return f"{body}\n{hashlib.sha256(body.encode()).hexdigest()}\n"


def unseal(text: str) -> dict[str, Any]:
    """The inverse of `seal`; raises ValueError if the text has changed."""
    body, _, digest = text.partition("\n")
    if hashlib.sha256(body.encode()).hexdigest() != digest.strip():
        raise ValueError("its checksum is wrong")
    return json.loads(body)
