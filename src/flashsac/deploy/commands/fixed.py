"""Commands known beforehand: one velocity, or a script of them. They never grow old."""

from __future__ import annotations

import csv
import itertools
import json
import math
from pathlib import Path

import numpy as np

from flashsac.deploy.commands.base import Command, Commands
from flashsac.errors import FlashSACError


class Fixed(Commands):
    """One velocity for the whole episode."""

    def __init__(self, velocity: tuple[float, float, float]):
        self._command = Command(np.array(velocity, float))

    def read(self, seconds: float) -> Command:
        return self._command


class Script(Commands):
    """A table of times and velocities. Each velocity holds until the next; before the first, the command is zero.

    The file is CSV (seconds,vx,vy,yaw) or JSON (a list of such rows)."""

    def __init__(self, path: Path):
        try:
            rows = _read_rows(path)
        except OSError as error:
            raise FlashSACError(
                f"--commands {path}: {error.strerror}. It takes a script (CSV of seconds,vx,vy,yaw), stdin, udp:PORT, or remote."
            ) from None
        except (ValueError, TypeError, IndexError, KeyError) as error:
            raise FlashSACError(
                f"{path} is no script of commands ({error}). Lines of `seconds,vx,vy,yaw` make one."
            ) from None
        self._times = np.array([row[0] for row in rows])
        self._commands = [Command(np.zeros(3))] + [Command(np.array(row[1:])) for row in rows]

    def read(self, seconds: float) -> Command:
        return self._commands[int(np.searchsorted(self._times, seconds + 1e-9, side="right"))]


def _read_rows(path: Path) -> list[list[float]]:
    """Rows of seconds, vx, vy, yaw, with rising seconds."""
    text = path.read_text("utf-8-sig")  # a spreadsheet begins the file with a byte order mark
    given = json.loads(text) if path.suffix == ".json" else list(csv.reader(text.splitlines()))
    header = bool(given) and path.suffix != ".json" and not any(map(_is_number, given[0]))
    rows = [[float(value) for value in row] for row in given[header:] if row]
    if not rows or any(len(row) != 4 or not all(map(math.isfinite, row)) for row in rows):
        raise ValueError("rows of four numbers are wanted")
    times = [row[0] for row in rows]
    if times[0] < 0 or any(later <= earlier for earlier, later in itertools.pairwise(times)):
        raise ValueError("its seconds must begin at zero or later, and rise from row to row")
    return rows


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
