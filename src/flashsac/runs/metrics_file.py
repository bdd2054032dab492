"""Reading metrics.csv: rows that are whole are read, whatever happened to the others."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

Row = dict[str, float]
ENV_PREFIX = "env/"
"""Columns that hold metrics of the environment's own begin with this."""


class MetricsFile(NamedTuple):
    """What a metrics.csv holds."""

    rows: list[Row]
    """Empty cells are left out."""
    damaged: list[bytes]
    """Lines that are no row, as they are. A last line that was cut off by a crash is not among them."""


def read_metrics(path: Path) -> list[Row]:
    """The rows of a metrics.csv that are whole."""
    return read_metrics_file(path).rows


def read_metrics_file(path: Path, columns: Sequence[str] = ()) -> MetricsFile:
    """Read all lines. `columns` are those that the file should have; they count where its own first line is damaged."""
    if not path.exists():
        return MetricsFile([], [])
    content = path.read_bytes()
    lines = content.splitlines()
    if not lines:
        return MetricsFile([], [])
    cells = [_cells(line) for line in lines]
    header = _header(cells, columns)
    rows, damaged = [], []
    for line, found in list(zip(lines, cells, strict=True))[header == cells[0] :]:
        row = _row(header, found)
        rows += [] if row is None else [row]
        damaged += [line] if row is None and line else []
    cut_off = not content.endswith((b"\n", b"\r"))
    return MetricsFile(rows, damaged[:-1] if cut_off and damaged[-1:] == lines[-1:] else damaged)


def _cells(line: bytes) -> list[str] | None:
    """None for a line that is no text, or no line of a CSV file."""
    try:
        return next(csv.reader([line.decode("utf-8-sig")]), [])
    except (ValueError, csv.Error):  # csv.Error: a field that is too long
        return None


def _header(cells: list[list[str] | None], columns: Sequence[str]) -> list[str] | None:
    """The names of the columns: of the first line, unless it is damaged."""
    first, expected = cells[0], list(columns) or None
    if first is None or len(set(first)) < len(first) or "step" not in first:
        return expected
    changed = [(a, b) for a, b in zip(first, expected or [], strict=False) if a != b]
    if expected and len(first) == len(expected) and len(changed) == 1 and _is_damaged(*changed[0]):
        return expected
    sizes = [len(row) for row in cells[1:] if row is not None]
    if expected and len(first) not in sizes and len(expected) in sizes:
        return expected  # a comma has changed
    return first


def _is_damaged(name: str, expected: str) -> bool:
    """True if one character of a name has changed. Otherwise, and in an environment's metrics, it is another metric."""
    characters = zip(name, expected, strict=False)
    return not name.startswith(ENV_PREFIX) and len(name) == len(expected) and sum(a != b for a, b in characters) == 1


def _row(header: list[str] | None, cells: list[str] | None) -> Row | None:
    """None if it is damaged."""
    if header is None or cells is None or len(cells) != len(header):
        return None
    try:
        row = {name: float(cell) for name, cell in zip(header, cells, strict=True) if cell}
    except ValueError:
        return None
    return row if math.isfinite(row.get("step", math.nan)) else None
