"""What else lies in a run directory for the page: its newest video, its coverage, its wall clock.

Each may be missing, half written or damaged: then the page does without it."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError
from flashsac.experiments.page.figures import numbers
from flashsac.experiments.page.kept import Kept, Piece, state_of
from flashsac.experiments.recorded import RecordedRun
from flashsac.experiments.wall_clock import NUMBERS, run_wall_clock
from flashsac.runs import layout
from flashsac.runs.seal import MALFORMED, parse_object
from flashsac.system.files import UNFINISHED

COVERAGE = Path("coverage", "coverage.json")
MOST_CELLS = 200_000
"""Cells of coverage densities that a page holds for one run; the PNG and JSON files have all of them."""
MOST_BYTES = 64 * 2**20
"""A JSON file beyond this is not read."""


def newest_video(run: Path) -> Path | None:
    """Return the newest finished MP4 file in a run's videos; None if it has none.

    A link that leads out of the run directory is left out: a page is given to others, the rest of the disk is not."""
    found = []
    with contextlib.suppress(OSError):
        for path in (run / layout.VIDEOS).glob("*.mp4"):
            with contextlib.suppress(OSError):
                inside = path.is_file() and path.resolve().is_relative_to(run.resolve())
                if inside and path.stat().st_size and not path.name.startswith(UNFINISHED):
                    found.append((path.stat().st_mtime_ns, path))
    return max(found)[1] if found else None


def wall_clock(run: RecordedRun, kept: Kept) -> dict[str, Any]:
    """Return the measurement of a run by the paper's protocol; empty if there is none."""
    return kept.get(("wall clock", run, state_of(run.path / layout.WALL_CLOCK)), lambda: _wall_clock(run))


def coverage(run: Path, kept: Kept) -> list[Piece]:
    """Return the pairs of coverage.json, with densities and the other numbers; empty if there are none."""
    return kept.get(("coverage", run, state_of(run / COVERAGE)), lambda: _coverage(run))


def _wall_clock(run: RecordedRun) -> dict[str, Any]:
    with contextlib.suppress(FlashSACError):
        if measured := run_wall_clock(run):
            return {name.replace("_", " "): getattr(measured, name) for name in (*NUMBERS, "precision", "machine")}
    return {}


def _coverage(run: Path) -> list[Piece]:
    with contextlib.suppress(*MALFORMED):
        pairs: list[Piece] = []
        cells = 0
        for given in _read(run / COVERAGE)["pairs"]:
            pair = _pair(given)
            cells += 2 * len(pair["x_edges"]) * len(pair["y_edges"])
            if cells > MOST_CELLS and pairs:
                break
            pairs.append(Piece(pair))
        return pairs
    return []


def _pair(given: dict[str, Any]) -> dict[str, Any]:
    """Return one pair of dimensions; raises one of MALFORMED for anything else."""
    out: dict[str, Any] = {name: str(given[name]) for name in ("x", "y")}
    out |= {name: numbers(given[name]) for name in ("x_edges", "y_edges")}
    shape = len(out["x_edges"]) - 1, len(out["y_edges"]) - 1
    for name in ("replay", "policy"):
        out[name] = [numbers(row) for row in given[name]]
        if len(out[name]) != shape[0] or any(len(row) != shape[1] for row in out[name]):
            raise ValueError(f"{name} has not the shape {shape}")
    rest = {name: value for name, value in given.items() if name not in out}
    out["numbers"] = {
        name.replace("_", " "): float(f"{value:.6g}")
        for name, value in rest.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
    return out


def _read(file: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, *MALFORMED, json.JSONDecodeError):
        if file.is_file() and file.stat().st_size <= MOST_BYTES:
            return parse_object(file.read_text())
    return {}
