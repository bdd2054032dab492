"""Reading a sweep from a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError
from flashsac.experiments.settings import checked_names
from flashsac.experiments.space import Choice, Range, read_range
from flashsac.experiments.sweep import Sweep, Variant, crossed, seeds_from_count
from flashsac.experiments.trial import check_of_baseline
from flashsac.system.suggest import did_you_mean

KEYS: dict[str, Any] = {
    "name": str,
    "tasks": list,
    "seeds": (int, list),
    "preset": str,
    "settings": dict,
    "vary": dict,
    "variants": dict,
    "search": dict,
}
"""The keys of a file, and the type of each."""


def read_sweep(path: Path) -> Sweep:
    """Read a sweep; docs/experiments/sweep.md describes the file."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise FlashSACError(f"{path} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise FlashSACError(f"{path} is no TOML file: {error}.") from None
    for key, value in content.items():
        if key not in KEYS:
            raise FlashSACError(
                f"{path}: there is no key '{key}'.{did_you_mean(key, KEYS)} Settings belong into [settings]."
            )
        if not isinstance(value, KEYS[key]) or isinstance(value, bool):
            raise FlashSACError(f"{path}: {key} has the wrong type; docs/experiments/sweep.md has an example.")
    if not content.get("tasks"):
        raise FlashSACError(f'{path}: which tasks? Add a line such as tasks = ["mujoco:HalfCheetah-v4"].')
    seeds = content.get("seeds", 1)
    variants = [_variant(path, name, table) for name, table in content.get("variants", {}).items()]
    search = dict(content.get("search", {}))
    search_trials = search.pop("trials", 20)
    if not isinstance(search_trials, int) or search_trials < 1:
        raise FlashSACError(f"{path}, [search]: trials must be a whole number above 0.")
    sweep = Sweep(
        name=content.get("name", path.stem),
        tasks=tuple(content["tasks"]),
        seeds=seeds_from_count(seeds) if isinstance(seeds, int) else tuple(seeds),
        preset=content.get("preset"),
        settings=checked_names(content.get("settings", {}), f"{path}, [settings]"),
        space={name: _part(path, name, value) for name, value in checked_names(search, f"{path}, [search]").items()},
        search_trials=search_trials,
    )
    varied = checked_names(content.get("vary", {}), f"{path}, [vary]")
    for name, values in varied.items():
        if not isinstance(values, list) or not values:
            raise FlashSACError(f"{path}, [vary]: {name} needs a list of values.")
    return sweep.with_variants(crossed(variants or sweep.variants, varied))


def _part(path: Path, name: str, value: Any) -> Range | Choice:
    found: Range | Choice | None = read_range(name, value) if isinstance(value, str) else None
    if isinstance(value, list) and value:
        found = Choice(tuple(value))
    if found is None:
        raise FlashSACError(f'{path}, [search]: write {name} = "LOW..HIGH", "LOW..HIGH:log", or a list of values.')
    return found


def _variant(path: Path, name: str, table: Any) -> Variant:
    where = f"{path}, [variants.{name}]"
    if not isinstance(table, dict):
        raise FlashSACError(f"{where} must be a table of settings.")
    algorithm = table.get("algorithm")
    if not isinstance(algorithm, str | None):
        raise FlashSACError(f"{where}: algorithm must be the name of a baseline, such as sac.")
    if algorithm is not None:
        from flashsac.experiments.baselines.algorithms import find_algorithm  # imports torch

        find_algorithm(algorithm)
    settings = checked_names({key: value for key, value in table.items() if key != "algorithm"}, where)
    if algorithm is not None:
        check_of_baseline(where, name, settings)
    return Variant(name, settings, algorithm)
