"""Commands from another process of this machine: lines `vx vy yaw` by a pipe, datagrams `number vx vy yaw` by UDP."""

from __future__ import annotations

import abc
import contextlib
import math
import os
import select
import socket
import threading
import time

import numpy as np

from flashsac.deploy.commands.base import Command, Commands
from flashsac.errors import FlashSACError

LONGEST_LINE = 512
"""Bytes. A longer line is no command."""
HIGHEST_NUMBER = 2**63 - 1
"""The highest number of a datagram: what time.monotonic_ns() can say."""


class Stream(Commands):
    """A source that a thread listens to. A command's age counts from its arrival."""

    needs_real_time = True

    def __init__(self, source: int | socket.socket):
        self._source = source
        self._newest: tuple[np.ndarray, float] | None = None
        """The last velocity, shape (3,), and the time of its arrival."""
        self._ended: str | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commands", daemon=True)
        self._thread.start()

    @property
    def begins_when(self) -> str | None:
        return "the first command comes" if self.read(0.0) is None else None

    def read(self, seconds: float) -> Command | None:
        if self._ended:
            return Command(np.zeros(3), math.inf, self._ended)
        newest = self._newest
        return None if newest is None else Command(newest[0], time.monotonic() - newest[1])

    def close(self) -> None:
        self._closed.set()
        self._thread.join(timeout=1.0)  # the keyboard's thread must restore the terminal before the process ends

    def _run(self) -> None:
        try:
            self._listen()
        finally:
            if self._newest is None:  # no command will ever come, so the robot must not wait for one
                self._ended = self._ended or "the source of commands ended"

    @abc.abstractmethod
    def _listen(self) -> None:
        """Keep `_newest` up to date until `_closed` is set or the source has ended."""


class Lines(Stream):
    """Lines of a sender, which must repeat its command 10 times a second or more, or the command grows old."""

    def _listen(self) -> None:
        while not self._closed.is_set():
            if not select.select([self._source], [], [], 0.2)[0]:
                continue
            try:
                lines = self._receive()
            except OSError:
                return
            if lines is None:
                return
            for line in lines:
                if (velocity := self._velocity(line)) is not None:
                    self._newest = velocity, time.monotonic()

    def _velocity(self, line: bytes) -> np.ndarray | None:
        """The command in a line, shape (3,); None for a line that must move nothing."""
        return parse(line)

    @abc.abstractmethod
    def _receive(self) -> list[bytes] | None:
        """The lines that have arrived; None when the sender is gone. From then on its last command only ages."""


class Pipe(Lines):
    """Lines from a pipe, for example standard input."""

    def __init__(self, descriptor: int):
        self._descriptor, self._rest = descriptor, b""
        super().__init__(descriptor)

    def _receive(self) -> list[bytes] | None:
        got = os.read(self._descriptor, 512)
        *lines, rest = (self._rest + got).split(b"\n")
        self._rest = rest[: LONGEST_LINE + 1]  # the rest of a line that is too long makes no command of it
        return lines if got else None


class Numbered:
    """A reader of lines `number vx vy yaw`, each with a higher number than all before.

    One that was repeated, delayed or recorded moves nothing. A sender that takes time.monotonic_ns() as the number can
    be started again and goes on."""

    def __init__(self) -> None:
        self._highest, self._noted = -1, False

    def take(self, line: bytes) -> np.ndarray | None:
        """The velocity, shape (3,); None for a line that must move nothing. The first such line is noted."""
        numbered = parse_numbered(line)
        if numbered is not None and numbered[0] > self._highest:
            self._highest, velocity = numbered
            return velocity
        if line.strip() and not self._noted:
            self._noted = True
            wrong = "its number is not higher than the last" if numbered else "it is not `number vx vy yaw`"
            print(f"note: a datagram was ignored: {wrong} (docs/deploy.md). Others may follow unnoted.", flush=True)
        return None


class Udp(Lines):
    """Numbered lines in UDP datagrams, from this machine only, because their sender moves the robot."""

    def __init__(self, port: int):
        self._numbered = Numbered()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", port))
        super().__init__(self._socket)

    @property
    def port(self) -> int:
        return self._socket.getsockname()[1]

    def _receive(self) -> list[bytes]:
        datagram = self._socket.recv(LONGEST_LINE + 1)
        return datagram.split(b"\n") if len(datagram) <= LONGEST_LINE else []  # the end of a longer one is cut off

    def _velocity(self, line: bytes) -> np.ndarray | None:
        return self._numbered.take(line)

    def close(self) -> None:
        super().close()
        self._socket.close()


def parse(line: bytes) -> np.ndarray | None:
    """Three finite numbers as a velocity, shape (3,); None for any other line, so that a garbled one moves nothing."""
    if len(line) > LONGEST_LINE:
        return None
    with contextlib.suppress(ValueError):
        values = np.array([float(word) for word in line.replace(b",", b" ").split()])
        if values.shape == (3,) and np.isfinite(values).all():
            return values
    return None


def parse_numbered(line: bytes) -> tuple[int, np.ndarray] | None:
    """The number and the velocity of a datagram; None for any other."""
    number, *rest = line.replace(b",", b" ").split(maxsplit=1) or [b""]
    velocity = parse(rest[0]) if rest and number.isdigit() and len(line) <= LONGEST_LINE else None
    return None if velocity is None or int(number) > HIGHEST_NUMBER else (int(number), velocity)


def open_udp(source: str) -> Udp:
    """Listen as `--commands udp:PORT` says."""
    port = source.removeprefix("udp:")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise FlashSACError(f"--commands {source}: a port is a number from 1 to 65535, as in udp:9870.")
    try:
        return Udp(int(port))
    except OSError as error:
        raise FlashSACError(f"--commands {source}: {error.strerror}. Name another port.") from None
