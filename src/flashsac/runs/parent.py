"""The parent of a run: the checkpoint of another run that it started from. config.json names it."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

PARENT = "parent"
"""The key in config.json."""
Contents = Literal["networks", "networks and replay", "everything"]


@dataclasses.dataclass(frozen=True)
class Parent:
    """The checkpoint that a run started from, and what it took from it. The run needs it only until its own first
    checkpoint."""

    run: str
    """Its run directory."""
    step: int
    sha256: str
    """Checksum of the checkpoint's manifest.json, which holds the checksums of all its files."""
    contents: Contents
    """What was taken. "everything" continues the run: optimizers, counters and metrics go on too."""
    transitions: int
    """Transitions in the replay that came from a parent, and are not among this run's own steps."""
    policy_collects: bool
    """True if the warm-up acts with the loaded policy, False if it acts at random."""

    def record(self) -> dict[str, Any]:
        """The part of config.json that names the parent."""
        return {PARENT: dataclasses.asdict(self)}


def parent_in(record: dict[str, Any]) -> Parent | None:
    """The parent that a config.json names, None without one. A malformed one raises TypeError or ValueError."""
    saved = record.get(PARENT)
    if saved is None:
        return None
    parent = Parent(**saved)
    texts = (parent.run, parent.sha256)
    counts = (parent.step, parent.transitions)
    if not all(isinstance(text, str) for text in texts) or not isinstance(parent.policy_collects, bool):
        raise TypeError("the parent is named by values of a wrong type")
    if not all(type(count) is int and 0 <= count <= 2**53 for count in counts):
        raise ValueError(f"the parent's step or transitions are out of range: {counts!r:.60}")
    if parent.contents not in get_args(Contents):
        raise ValueError(f"what was taken from the parent, {parent.contents!r:.60}, is not known")
    return parent
