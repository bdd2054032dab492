"""Suggestions for a misspelt name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], *, count: int = 3, cutoff: float = 0.5) -> list[str]:
    """The known words most like `word`, best first. A higher cutoff, up to 1, demands more likeness."""
    return difflib.get_close_matches(word, list(known), n=count, cutoff=cutoff)


def did_you_mean(word: str, known: Iterable[str], *, count: int = 3, cutoff: float = 0.5) -> str:
    """The end of an error message, with a leading space; empty if no known word is like `word`."""
    near = nearest(word, known, count=count, cutoff=cutoff)
    return f" Did you mean {' or '.join(near)}?" if near else ""
