"""Settings by one flat name each, such as agent.target_std: from a file or the command line to a checked config."""

from __future__ import annotations

import dataclasses
import math
import typing
from typing import Any

from flashsac.config.checks import check, coerce
from flashsac.config.overrides import override
from flashsac.config.schema import PresetName, TrainConfig, to_dict
from flashsac.errors import FlashSACError
from flashsac.experiments.recorded import flatten
from flashsac.sims.defaults import default_config
from flashsac.system.limits import flag
from flashsac.system.suggest import nearest

Settings = dict[str, Any]
NAMES: tuple[str, ...] = tuple(flatten(to_dict(TrainConfig())))
OF_THE_TRIAL = {"seed": "seeds", "run_dir": "--out"}
"""Settings that a sweep decides for every trial, and what decides them."""


def checked_names(settings: dict[str, Any], where: str) -> Settings:
    """Return nested or flat settings by their flat names. A name that does not exist is an error."""
    found = {name.replace("-", "_"): value for name, value in flatten(settings).items()}
    for name in found:
        if name in OF_THE_TRIAL:
            raise FlashSACError(f"{where}: {name} is not a setting of a sweep, {OF_THE_TRIAL[name]} decides it.")
        if name not in NAMES:
            last = name.rpartition(".")[2]
            near = [known for known in NAMES if known.rpartition(".")[2] == last] or nearest(name, NAMES, count=2)
            meant = f" Did you mean {' or '.join(near)}?" if near else " `flashsac train --help` shows all settings."
            raise FlashSACError(f"{where}: there is no setting {name}.{meant}")
    return found


def config_of(task: str, preset: PresetName | None, settings: Settings) -> TrainConfig:
    """Return the whole configuration that `flashsac train` makes of these settings, checked."""
    return changed(default_config(task, preset), settings)


def changed(config: TrainConfig, settings: Settings) -> TrainConfig:
    """Return a configuration with these settings in it, checked."""
    nested: dict[str, Any] = {}
    for name, value in settings.items():
        part, _, last = name.rpartition(".")
        (nested.setdefault(part, {}) if part else nested)[last] = value
    config = coerce(override(config, nested))
    check(config)
    return config


def flags(settings: Settings) -> list[str]:
    """Spell settings as arguments of `flashsac train`."""
    out: list[str] = []
    for name, value in settings.items():
        part, _, last = name.rpartition(".")
        prefix = f"--{part}." if part else "--"
        if isinstance(value, bool):
            out.append(flag(last if value else f"no_{last}", prefix))
        elif isinstance(value, list | tuple):
            out += [flag(last, prefix), *map(str, value)]
        else:
            out += [flag(last, prefix), str(value)]
    return out


def kind_of(name: str) -> Any:
    """Return the type that a setting is declared with."""
    kind: Any = TrainConfig
    for part in name.split("."):
        kind = typing.get_type_hints(kind)[part]
    return kind


def differences(wanted: TrainConfig, found: TrainConfig, ignored: set[str]) -> list[str]:
    """Return one phrase for every setting that differs. What was left to be chosen ("auto") may be anything."""
    one, other = flatten(dataclasses.asdict(wanted)), flatten(dataclasses.asdict(found))
    return [
        f"{name} is {other[name]}, not {value}"
        for name, value in one.items()
        if name not in ignored and value != "auto" and not _same(value, other[name])
    ]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-12)
    return bool(one == other)
