"""Where the robot shall go, and how long ago somebody said so. A source that is silent or gone grows old; safety.py acts on it."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import itertools
import json
import math
import os
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from flashsac.errors import FlashSACError
from flashsac.robots.description import Range


@dataclasses.dataclass(frozen=True)
class Command:
    """Forwards, sideways (m/s) and turning (rad/s), and the seconds since it was last confirmed."""

    velocity: np.ndarray
    age: float = 0.0
    ended: str | None = None
    """Why there will be no other; the robot stops at once."""


class Commands(Protocol):
    """A source of commands."""

    needs_real_time: bool

    def read(self, seconds: float) -> Command | None:
        """What holds `seconds` into the episode; None while nobody has said anything."""
        ...

    def close(self) -> None: ...


class Fixed:
    """Always the same."""

    needs_real_time = False

    def __init__(self, velocity: tuple[float, float, float]):
        self._command = Command(np.array(velocity, float))

    def read(self, seconds: float) -> Command:
        return self._command

    def close(self) -> None:
        pass


class Script:
    """A table of times and velocities; each holds until the next, and before the first nothing is asked for.

    CSV (seconds,vx,vy,yaw) or JSON (a list of such rows)."""

    needs_real_time = False

    def __init__(self, path: Path):
        try:
            text = path.read_text(
                "utf-8-sig"
            )  # spreadsheets begin a file with a mark, which would hide its first number
            given = json.loads(text) if path.suffix == ".json" else list(csv.reader(text.splitlines()))
            header = bool(given) and path.suffix != ".json" and not any(map(_is_number, given[0]))
            rows = [[float(value) for value in row] for row in given[header:] if row]
            if not rows or any(len(row) != 4 or not all(map(math.isfinite, row)) for row in rows):
                raise ValueError("rows of four numbers are wanted")
            times = [row[0] for row in rows]
            if times[0] < 0 or any(later <= earlier for earlier, later in itertools.pairwise(times)):
                raise ValueError("its seconds must begin at zero or later, and rise from row to row")
        except OSError as error:
            raise FlashSACError(
                f"--commands {path}: {error.strerror}. It takes a script (CSV of seconds,vx,vy,yaw), stdin, udp:PORT, or remote."
            ) from None
        except (ValueError, TypeError, IndexError, KeyError) as error:
            raise FlashSACError(
                f"{path} is no script of commands ({error}). Lines of `seconds,vx,vy,yaw` make one."
            ) from None
        self._times = np.array(times)
        self._commands = [Command(np.zeros(3))] + [Command(np.array(row[1:])) for row in rows]

    def read(self, seconds: float) -> Command:
        return self._commands[int(np.searchsorted(self._times, seconds + 1e-9, side="right"))]

    def close(self) -> None:
        pass


class Stream:
    """Lines `vx vy yaw` from another process, by its pipe or by UDP; each counts from when it arrives here.

    The sender must go on sending (10 times a second or more), or its command grows old. A closed pipe says no more.
    """

    needs_real_time = True

    def __init__(self, source: int | socket.socket):
        self._source = source
        self._newest: tuple[np.ndarray, float] | None = None
        self._ended: str | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._live, name="commands", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        assert isinstance(self._source, socket.socket)
        return self._source.getsockname()[1]

    def read(self, seconds: float) -> Command | None:
        if self._ended:
            return Command(np.zeros(3), math.inf, self._ended)
        newest = self._newest
        return None if newest is None else Command(newest[0], time.monotonic() - newest[1])

    def _live(self) -> None:
        try:
            self._listen()
        finally:
            if self._newest is None:  # it will never speak, so nobody shall wait for it
                self._ended = self._ended or "the source of commands ended"

    def _listen(self) -> None:
        rest = b""
        while not self._closed.is_set():
            if not select.select([self._source], [], [], 0.2)[0]:
                continue
            udp = isinstance(self._source, socket.socket)
            try:
                got = self._source.recv(512) + b"\n" if udp else os.read(self._source, 512)  # type: ignore[union-attr,arg-type]
            except OSError:
                return
            if not got and not udp:
                return  # the other end is gone: from now on its last command only ages
            *lines, rest = (rest + got).split(b"\n")
            for line in lines:
                if (velocity := parse(line)) is not None:
                    self._newest = velocity, time.monotonic()

    def close(self) -> None:
        self._closed.set()
        self._thread.join(timeout=1.0)  # a terminal must be put in order again before we end
        if isinstance(self._source, socket.socket):
            self._source.close()


class Keyboard(Stream):
    """w s forwards and back, a d sideways, q e turn (or the arrows), 0.1 each; space: zero; x stops. The first of them begins."""

    STEP = 0.1
    KEYS = {"w": (0, 1), "s": (0, -1), "a": (1, 1), "d": (1, -1), "q": (2, 1), "e": (2, -1)}
    ARROWS = {"\x1b[a": "w", "\x1b[b": "s", "\x1b[c": "e", "\x1b[d": "q"}

    def __init__(self, ranges: Sequence[Range]) -> None:
        if not sys.stdin.isatty():
            raise FlashSACError(
                "--keyboard needs a terminal. From a program, send lines to --commands stdin or udp:PORT."
            )
        print(self.__class__.__doc__)
        self._wanted, (self._slowest, self._fastest) = np.zeros(3), np.array(ranges).T
        self._begun = False
        super().__init__(sys.stdin.fileno())

    def _listen(self) -> None:
        rest = ""
        with _single_keys(sys.stdin.fileno()):
            while not self._closed.is_set():
                if select.select([self._source], [], [], 0.05)[0]:
                    try:
                        got = os.read(sys.stdin.fileno(), 64)
                    except OSError:  # a terminal that was closed
                        got = b""
                    # Caps Lock must not hide the x.
                    keys, rest = split_keys(rest + got.decode(errors="ignore").lower())
                    if not got or "x" in keys:
                        self._ended = "the key x" if got else "the terminal is gone"
                        return
                    for key in keys:
                        self._press(self.ARROWS.get(key.replace("\x1bo", "\x1b["), key))
                else:
                    rest = ""  # the escape key alone: what comes next is a key of its own
                if self._begun:  # fresh as long as the terminal is there
                    self._newest = self._wanted.copy(), time.monotonic()

    def _press(self, key: str) -> None:
        if key == " ":
            self._wanted[:] = 0.0
        elif key in self.KEYS:
            axis, sign = self.KEYS[key]
            self._wanted[axis] += sign * self.STEP
            # Or a key held too long would have to be taken back press by press.
            self._wanted = np.clip(self._wanted, self._slowest, self._fastest)
        else:
            return
        self._begun = True


class AfterEnter:
    """Another source, heard only after Enter: a real robot shall not begin by itself."""

    needs_real_time = True
    begins_when = "Enter is pressed"

    def __init__(self, commands: Commands) -> None:
        if not sys.stdin.isatty():
            raise FlashSACError(
                "a real robot begins when Enter is pressed, and there is no terminal. From a program, send lines to --commands stdin "
                "or udp:PORT: it begins with the first."
            )
        self._commands, self._pressed = commands, False

    def listen(self) -> None:
        """Forget what was typed before the robot was ready."""
        import termios

        self._pressed = False
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def read(self, seconds: float) -> Command | None:
        if not self._pressed and select.select([sys.stdin], [], [], 0.0)[0]:
            self._pressed = bool(sys.stdin.readline())
        return self._commands.read(seconds) if self._pressed else None

    def close(self) -> None:
        self._commands.close()


def parse(line: bytes) -> np.ndarray | None:
    """Three finite numbers, else nothing: a garbled line must not move a robot."""
    with contextlib.suppress(ValueError):
        values = np.array([float(word) for word in line.replace(b",", b" ").split()])
        if values.shape == (3,) and np.isfinite(values).all():
            return values
    return None


def split_keys(text: str) -> tuple[list[str], str]:
    """Single keys; those that a terminal sends as an escape sequence are one. And what may be the beginning of such."""
    rest = re.search(r"\x1b([\[o]\[?[\d;?<>=]*)?$", text)
    whole = text[: rest.start()] if rest else text
    return re.findall(r"\x1b[\[o]\[?[\d;?<>=]*[a-z~]|.", whole, re.DOTALL), rest[0] if rest else ""


def udp_socket(port: int) -> socket.socket:
    """Listens on this machine only: whoever may send here moves the robot."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", port))
    return listening


def make_commands(
    source: str | None, fixed: tuple[float, float, float], keyboard: bool, ranges: Sequence[Range], real: bool = False
) -> Commands:
    """From the command line's options. `ranges`: what the policy was trained on, for keys to stay within. `real`: begin when told."""
    if keyboard:
        return Keyboard(ranges)
    if source is None:
        return AfterEnter(Fixed(fixed)) if real else Fixed(fixed)
    if source == "stdin":
        return Stream(sys.stdin.fileno())
    if source.startswith("udp:"):
        return Stream(_listening(source))
    return AfterEnter(Script(Path(source))) if real else Script(Path(source))


def _listening(source: str) -> socket.socket:
    port = source.removeprefix("udp:")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise FlashSACError(f"--commands {source}: a port is a number from 1 to 65535, as in udp:9870.")
    try:
        return udp_socket(int(port))
    except OSError as error:
        raise FlashSACError(f"--commands {source}: {error.strerror}. Name another port.") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@contextlib.contextmanager
def _single_keys(terminal: int) -> Iterator[None]:
    """Keys at once, without Enter."""
    import termios
    import tty

    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
