"""Which runs belong to one curve: those with the same settings, or those that the user gave one name."""

from __future__ import annotations

import dataclasses
import glob
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError
from flashsac.experiments.curves import Curve
from flashsac.system.limits import flag

LABEL = "flashsac"
"""The name of runs that were given none."""
BOOKKEEPING = {
    "seed",
    "run_dir",
    "wandb",
    "trackio",
    "log_every",
    "checkpoint_every",
    "keep_checkpoints",
    "video",
    "max_invalid",
    "eval.every",
    "diagnostics.every",
    "diagnostics.lanczos_iterations",
    "replay.storage",
}
"""Settings that do not change what a run learns: runs that differ in these alone share a curve."""
MOST_NAMED = 3
"""A legend names up to so many settings; of more, only those that tell the curves apart."""
ABSENT = "absent"
"""The value of a setting that a run of another version does not have."""


@dataclasses.dataclass(frozen=True)
class EvaluatedRun:
    """A run with its curve."""

    path: Path
    curve: Curve
    settings: dict[str, Any]
    """All its settings, by names such as agent.batch_size."""


def find_runs(paths: list[Path]) -> list[Path]:
    """Return the run directories among the paths and below them. A path without any is passed over, as in `runs/*`."""
    if missing := [str(path) for path in paths if not path.exists()]:
        raise FlashSACError(f"{', '.join(missing)}: no such file or directory.")
    runs = sorted(
        {file.parent for path in paths for file in path.rglob("config.json") if (file.parent / "metrics.csv").exists()}
    )
    if not runs:
        raise FlashSACError(
            f"no runs in {', '.join(map(str, paths))}: a run directory holds config.json and metrics.csv."
        )
    return runs


def group_paths(arguments: list[str]) -> dict[str, list[Path]]:
    """Return paths by name: `NAME=PATH` names what is below it, to compare it with others; a plain PATH needs no name.

    Shells leave the pattern in NAME=runs/seed-* alone, so it is resolved here."""
    groups: dict[str, list[Path]] = defaultdict(list)
    for argument in arguments:
        name, _, path = argument.partition("=")
        named = path and not Path(argument).exists()  # a directory may well be called lr=3
        given = path if named else argument
        found = [] if Path(given).exists() else sorted(glob.glob(given))
        groups[name if named else LABEL] += [Path(match) for match in found or [given]]
    return groups


def flatten(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings by one name each: {"agent": {"atoms": 5}} gives {"agent.atoms": 5}."""
    out: dict[str, Any] = {}
    for name, value in settings.items():
        out |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return out


def differing_settings(runs: list[EvaluatedRun]) -> list[str]:
    """Return the names of the settings that are not the same in all runs, bookkeeping left out."""
    names = dict.fromkeys(name for run in runs for name in run.settings)
    return [name for name in names if name not in BOOKKEEPING and len({_value(run, name) for run in runs}) > 1]


def split_by_settings(runs: list[EvaluatedRun]) -> dict[str, list[EvaluatedRun]]:
    """Return runs of the same settings together, by a label that names how they differ from the others."""
    names = differing_settings(runs)
    if not names:
        return {LABEL: runs}
    groups: dict[tuple[str, ...], list[EvaluatedRun]] = defaultdict(list)
    for run in runs:
        groups[tuple(_value(run, name) for name in names)].append(run)
    shown = names if len(names) <= MOST_NAMED else _telling(names, list(groups))
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return {
        ", ".join(spell(name, group[0].settings.get(name, ABSENT)) for name in shown) + more: group
        for group in groups.values()
    }


def repeated_seeds(runs: list[EvaluatedRun]) -> dict[int, list[Path]]:
    """Return the runs of every seed that occurs more than once."""
    by_seed: dict[int, list[Path]] = defaultdict(list)
    for run in runs:
        by_seed[run.curve.seed].append(run.path)
    return {seed: paths for seed, paths in by_seed.items() if len(paths) > 1}


def spell(name: str, value: Any) -> str:
    """Write a setting as on the command line: --agent.batch-size 128, --agent.no-residual."""
    if isinstance(value, bool):
        part, _, last = name.rpartition(".")
        return flag(last if value else f"no_{last}", f"--{part}." if part else "--")
    text = " ".join(map(str, value)) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else value
    return f"{flag(name)} {text}".rstrip()


def _value(run: EvaluatedRun, name: str) -> str:
    value = run.settings.get(name, ABSENT)
    return json.dumps(float(value) if type(value) is int else value)


def _telling(names: list[str], groups: list[tuple[str, ...]]) -> list[str]:
    """Return a few of the names whose values tell all groups apart."""
    chosen: list[int] = []
    apart = 1
    for column in range(len(names)):
        count = len({tuple(group[i] for i in (*chosen, column)) for group in groups})
        if count > apart:
            chosen.append(column)
            apart = count
    return [names[column] for column in chosen]
