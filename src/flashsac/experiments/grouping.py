"""Which runs belong to one curve, and its name: those of the same settings, or those that the user gave one name."""

from __future__ import annotations

import glob
import json
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path
from typing import Any

from flashsac.experiments.recorded import RecordedRun
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
    "library",
    "minutes",
    "threads",
}
"""Settings that do not change what a run learns: runs that differ in these alone share a curve."""
MOST_NAMED = 3
"""A legend names up to so many settings; of more, only those that tell the curves apart."""
ABSENT = "absent"
"""The value of a setting that a run of another version does not have."""


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


def differing_settings(runs: list[RecordedRun]) -> list[str]:
    """Return the names of the settings that are not the same in all runs of an algorithm, bookkeeping left out."""
    by_algorithm: dict[str, list[RecordedRun]] = defaultdict(list)
    for run in runs:
        by_algorithm[_algorithm(run)].append(run)
    if len(by_algorithm) > 1:  # each has settings of its own
        names = dict.fromkeys(name for some in by_algorithm.values() for name in differing_settings(some))
        return list(names)
    names = dict.fromkeys(name for run in runs for name in run.settings)
    return [name for name in names if name not in BOOKKEEPING and len({setting_value(run, name) for run in runs}) > 1]


def name_lines(runs: list[RecordedRun], others: Collection[str] = ()) -> dict[str, list[RecordedRun]]:
    """Return runs of the same settings together, each line under a name of its own.

    A line is called like the variant of its sweep, else like its algorithm. Settings tell apart what remains, and are
    the whole name where there is nothing else to compare with. `others` are names that the user gave."""
    groups: dict[str, list[RecordedRun]] = defaultdict(list)
    for run in runs:
        groups[run.variant or _algorithm(run)].append(run)
    alone = not others and list(groups) == [LABEL]
    out = {}
    for name, some in groups.items():
        for label, line in split_by_settings(some).items():
            full = label if alone or label == name else name if label == LABEL else f"{name} {label}"
            out[f"{full} (unnamed)" if full in others else full] = line
    return out


def split_by_settings(runs: list[RecordedRun]) -> dict[str, list[RecordedRun]]:
    """Return runs of the same algorithm and settings together, by a label that names how they differ from the
    others."""
    by_algorithm: dict[str, list[RecordedRun]] = defaultdict(list)
    for run in runs:
        by_algorithm[_algorithm(run)].append(run)
    if len(by_algorithm) == 1:
        return _split(runs)
    return {
        algorithm if label == LABEL else f"{algorithm} {label}": some
        for algorithm, same in by_algorithm.items()
        for label, some in _split(same).items()
    }


def _algorithm(run: RecordedRun) -> str:
    """Return the name of the run's algorithm in the legend: "flashsac", "sac (stable-baselines3)"."""
    algorithm, library = (run.settings.get(name) for name in ("algorithm", "library"))
    return f"{algorithm} ({str(library).partition(' ')[0]})" if algorithm else LABEL


def _split(runs: list[RecordedRun]) -> dict[str, list[RecordedRun]]:
    names = differing_settings(runs)
    if not names:
        return {LABEL: runs}
    groups: dict[tuple[str, ...], list[RecordedRun]] = defaultdict(list)
    for run in runs:
        groups[tuple(setting_value(run, name) for name in names)].append(run)
    shown = names if len(names) <= MOST_NAMED else _telling(names, list(groups))
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return {
        ", ".join(spell(name, group[0].settings.get(name, ABSENT)) for name in shown) + more: group
        for group in groups.values()
    }


def repeated_seeds(runs: list[RecordedRun]) -> dict[int, list[Path]]:
    """Return the runs of every seed that occurs more than once."""
    by_seed: dict[int, list[Path]] = defaultdict(list)
    for run in runs:
        by_seed[run.seed].append(run.path)
    return {seed: paths for seed, paths in by_seed.items() if len(paths) > 1}


def spell(name: str, value: Any) -> str:
    """Write a setting as on the command line: --agent.batch-size 128, --agent.no-residual."""
    if isinstance(value, bool):
        part, _, last = name.rpartition(".")
        return flag(last if value else f"no_{last}", f"--{part}." if part else "--")
    text = " ".join(map(str, value)) if isinstance(value, list) else spell_number(value)
    return f"{flag(name)} {text}".rstrip()


def spell_number(value: Any) -> str:
    """Write a value in few digits, but never two numbers alike."""
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)


def setting_value(run: RecordedRun, name: str) -> str:
    """Return a setting in a form that is equal for equal values: 1 and 1.0 are."""
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
