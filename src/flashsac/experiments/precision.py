"""The precision of a sweep. `auto` is measured once for all trials: on a busy machine each would measure its own."""

from __future__ import annotations

import json
import typing
from collections import Counter
from pathlib import Path

import filelock
import torch

from flashsac.config.schema import Precision
from flashsac.errors import FlashSACError
from flashsac.runs import layout
from flashsac.runs.directory import read_config
from flashsac.runs.seal import MALFORMED
from flashsac.system.files import write_atomic
from flashsac.training.precision import fastest_precision
from flashsac.training.start import checked_device

RECORD = "precision.json"
"""The file in the directory of a sweep that says what `auto` came to."""
LOCK = "precision.lock"
"""The file beside it that a trial keeps locked while it measures."""


def sweep_precision(out: Path, device: str) -> Precision:
    """Return what `auto` means in the sweep of this directory.

    The first trial of all decides, on the machine where it runs: the driver may see no GPU. A sweep that has runs
    already takes the precision of most of them."""
    out.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(out / LOCK):
        precision = _recorded(out / RECORD)
        if precision is None:
            precision = _of_runs(out) or fastest_precision(torch.device(checked_device(device)))
            write_atomic(out / RECORD, json.dumps({"precision": precision}) + "\n")
        return precision


def _recorded(file: Path) -> Precision | None:
    try:
        precision = json.loads(file.read_text())["precision"]
    except (OSError, *MALFORMED):
        return None
    return precision if precision in typing.get_args(Precision) else None


def _of_runs(out: Path) -> Precision | None:
    """The precision of most of a sweep's runs; None if there is none."""
    found: Counter[Precision] = Counter()
    for file in out.glob(f"*/*/*/{layout.CONFIG}"):
        try:
            precision = read_config(file.parent)[1].precision
        except FlashSACError:  # a baseline, or a run that another driver begins
            continue
        if precision != "auto":
            found[precision] += 1
    return found.most_common(1)[0][0] if found else None
