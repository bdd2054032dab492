"""The ranks of a run: how several processes that train together agree. A run of one process has one rank."""

from __future__ import annotations

from typing import Any, Protocol

from flashsac.core.sync import ALONE, Sync


class Ranks(Protocol):
    """All ranks call the same methods in the same order. Rank 0 writes the run directory and talks to the user."""

    rank: int
    count: int
    sync: Sync
    """What the learner exchanges."""

    def any(self, flag: bool) -> bool:
        """True on all ranks if it is on one. Cheap enough for every step."""
        ...

    def share(self, value: Any) -> list[Any]:
        """The values of all ranks, in their order. It waits as long as the others live, so they may be busy.

        Values are what JSON can hold."""
        ...


class OneRank:
    """A run of one process."""

    rank, count = 0, 1
    sync: Sync = ALONE

    def any(self, flag: bool) -> bool:
        return flag

    def share(self, value: Any) -> list[Any]:
        return [value]


ONE_RANK = OneRank()
