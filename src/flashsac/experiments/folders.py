"""The folders of a sweep: a run lies in TASK/VARIANT/seed-N, so the folders name its variant."""

from __future__ import annotations

import os
import re
from pathlib import Path


def safe_name(text: str) -> str:
    """Return the name of a folder for a task or a variant."""
    return re.sub(r"[^\w.=+-]+", "-", text).strip(".-") or "unnamed"


def trial_folder(sweep: Path, task: str, variant: str, seed: int) -> Path:
    """Return the run directory of a trial."""
    return sweep / safe_name(task) / safe_name(variant) / f"seed-{seed}"


def place_in_sweep(run: Path, task: str, seed: int) -> tuple[Path, str] | None:
    """Return the directory of the sweep that a run lies in, and its variant; None for a run that lies elsewhere."""
    path = Path(os.path.abspath(run))  # for "." and ".."; a link keeps the name that the user gave it
    variant = path.parent.name
    if not variant or len(path.parents) < 3:
        return None
    sweep = path.parents[2]
    return (sweep, variant) if path == trial_folder(sweep, task, variant, seed) else None
