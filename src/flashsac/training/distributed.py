"""Several processes that train one run, by torch.distributed. torchrun starts them and says who they are.

Learners exchange gradients and statistics by all-reduce. Everything else goes through the store in which the processes
met: votes on what to do next, and signs of life. A process that is gone is named with its host.
"""

from __future__ import annotations

import datetime
import functools
import json
import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from flashsac.core.sync import Sync
from flashsac.errors import FlashSACError, RankLost
from flashsac.training.ranks import ONE_RANK, Ranks

TIMEOUT = "FLASHSAC_RANK_TIMEOUT"
"""The environment variable with the seconds that a rank may be silent."""
STORE = "FLASHSAC_RANK_STORE"
"""The environment variable with the folder in which ranks of one machine meet, instead of at a port."""
DEFAULT_TIMEOUT = 600.0
SIGN_EVERY = 1.0
"""Seconds between two signs of life."""
POLL = 0.02
NEXT = "torchrun starts all ranks again from the last checkpoint, as often as it was told to; after that: flashsac resume RUN"
STORE_TIMEOUT = 30.0
"""Seconds that a call of the store may take. The store answers at once, unless the network is gone."""


def started_by_torchrun() -> bool:
    """True in a process that is one of several."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def local_rank() -> int:
    """The number of this process among those on this machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def ranks_here() -> int:
    """How many ranks share the memory of this machine."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if started_by_torchrun() else 1


def join_ranks() -> Ranks:
    """Meet the other ranks, once in a process; without torchrun there are none."""
    return _join() if started_by_torchrun() else ONE_RANK


@functools.cache
def _join() -> Ranks:
    try:
        timeout = float(os.environ.get(TIMEOUT, DEFAULT_TIMEOUT))
    except ValueError:
        raise FlashSACError(f"{TIMEOUT}={os.environ[TIMEOUT]}: write seconds, for example 600.") from None
    if torch.cuda.device_count() > local_rank():  # this does not touch a device yet
        torch.cuda.set_device(local_rank())
        os.environ.setdefault("MUJOCO_EGL_DEVICE_ID", str(local_rank()))
    store, rank, count = _meet(timeout)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
        store=dist.PrefixStore("groups", store),
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=timeout),
    )
    return TorchRanks(store, rank, count, timeout)


def _meet(timeout: float) -> tuple[dist.Store, int, int]:
    """The store in which the ranks meet, this rank, and how many there are.

    What ranks that failed have left there must not be found, so each start has its own."""
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if folder := os.environ.get(STORE):
        rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        return dist.FileStore(os.path.join(folder, f"start-{start}"), count), rank, count
    store, rank, count = next(dist.rendezvous("env://", timeout=datetime.timedelta(seconds=timeout)))
    return dist.PrefixStore(f"flashsac/{start}", store), rank, count


class TorchRanks:
    """The ranks of torch.distributed's default group."""

    def __init__(self, store: dist.Store, rank: int, count: int, timeout: float):
        self.rank, self.count = rank, count
        self.sync: Sync = TorchSync(rank, count)
        self._store, self._timeout, self._round = store, timeout, 0
        self._presence = Presence(store, rank, count, timeout)
        self.share("here")
        _exchange.presence = self._presence
        self.any(False)  # connections are made with the first exchange, and must not be while a graph is captured

    def any(self, flag: bool) -> bool:
        return bool(_all_reduce(torch.tensor([float(flag)])))

    def share(self, value: Any) -> list[Any]:
        """The exchange goes through the store, where it is known who is late."""
        self._round += 1
        self._store.set(f"{self._round}/{self.rank}", json.dumps(value))
        values = [self._answer(self._round, rank) for rank in range(self.count)]
        if self._round > 2:  # all have read it: each has answered since
            self._store.delete_key(f"{self._round - 2}/{self.rank}")
        return values

    def _answer(self, number: int, rank: int) -> Any:
        key = f"{number}/{rank}"
        while not self._presence.call(self._store.check, [key]):
            self._presence.require(rank)
            time.sleep(POLL)
        return json.loads(self._presence.call(self._store.get, key))


class Presence:
    """Signs of life: each rank counts in the store, and sees who has not counted on."""

    def __init__(self, store: Any, rank: int, count: int, timeout: float):
        # A connection of its own: on the other one a call may wait.
        self._store, self._rank, self._count, self._timeout = store.clone(), rank, count, timeout
        self._store.set_timeout(datetime.timedelta(seconds=min(timeout, STORE_TIMEOUT)))
        self._seen: dict[int, tuple[bytes, float]] = {}
        store.set(f"host/{rank}", socket.gethostname())
        store.set(f"alive/{rank}", "0")
        thread = threading.Thread(target=self._count_on, name="presence", daemon=True)
        thread.start()

    def _count_on(self) -> None:
        store, number = self._store.clone(), 0
        while True:
            time.sleep(SIGN_EVERY)
            number += 1
            try:
                store.set(f"alive/{self._rank}", str(number))
            except RuntimeError:  # the others are gone; the main thread will notice
                return

    def call(self, function: Any, *args: Any) -> Any:
        """A call of the store, which lies on the host of rank 0."""
        try:
            return function(*args)
        except RuntimeError as error:
            raise RankLost(
                f"the connection to the host of rank 0 ({os.environ.get('MASTER_ADDR')}) is lost: {_short(error)}. {NEXT}"
            ) from error

    def require(self, rank: int) -> None:
        """Raise if a rank has given no sign of life for too long."""
        if (silence := self._silence(rank)) > self._timeout:
            raise RankLost(f"{self._name(rank)} gave no sign of life for {silence:.0f} s. {NEXT}")

    def error(self, problem: BaseException) -> RankLost:
        """The error for an exchange that failed: it names those who are gone."""
        others = [rank for rank in range(self._count) if rank != self._rank]
        try:
            for rank in others:
                self._silence(rank)
            time.sleep(3 * SIGN_EVERY)
            gone = [self._name(rank) for rank in others if self._silence(rank) > 2 * SIGN_EVERY]
        except RankLost as lost:
            return lost
        who = " and ".join(gone) or "a rank that still gives signs of life"
        return RankLost(f"lost {who} ({_short(problem)}). {NEXT}")

    def _silence(self, rank: int) -> float:
        """Seconds since a rank was last seen to count."""
        key = f"alive/{rank}"
        now = time.monotonic()
        if not self.call(self._store.check, [key]):
            sign = b""
        else:
            sign = self.call(self._store.get, key)
        seen, since = self._seen.get(rank, (None, now))
        if sign != seen:
            self._seen[rank] = (sign, now)
            return 0.0
        return now - since

    def _name(self, rank: int) -> str:
        key = f"host/{rank}"
        host = self.call(self._store.get, key).decode() if self.call(self._store.check, [key]) else "a host unknown yet"
        return f"rank {rank} on {host}"


def _short(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:200]


# --- what learners exchange -------------------------------------------------------------------------------------------


class _Exchange:
    """The place where an exchange that fails finds out who is gone. One process has one group."""

    presence: Presence | None = None


_exchange = _Exchange()


@torch.library.custom_op("flashsac::all_reduce", mutates_args=())
def _all_reduce(x: Tensor) -> Tensor:
    """The sum over ranks. As an operator of its own it can be compiled with the rest of an update."""
    out = x.clone(memory_format=torch.contiguous_format)
    try:
        dist.all_reduce(out)
    except RuntimeError as error:
        if _exchange.presence is None:
            raise
        raise _exchange.presence.error(error) from error
    return out


@_all_reduce.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


# Every rank's result depends on every rank's input: the gradient of a sum is the sum of the gradients.
_all_reduce.register_autograd(lambda _context, gradient: _all_reduce(gradient))


class TorchSync:
    """Gradients and statistics, by all-reduce. It is a `Sync` (core/sync.py)."""

    def __init__(self, rank: int, ranks: int):
        self.rank, self.ranks = rank, ranks

    def gather(self, x: Tensor) -> Tensor:
        # A sum with zeros is exact, and has the gradient that a gathering must have.
        empty = torch.zeros_like(x)
        return _all_reduce(torch.stack([x if rank == self.rank else empty for rank in range(self.ranks)]))

    def mean(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        flat = _all_reduce(torch.cat([x.flatten() for x in tensors])) / self.ranks
        sizes = [x.numel() for x in tensors]
        return tuple(part.view_as(x) for part, x in zip(flat.split(sizes), tensors, strict=True))
