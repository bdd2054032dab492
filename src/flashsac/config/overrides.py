"""Changes of settings from Python, by name."""

from __future__ import annotations

import dataclasses
from typing import Any

from flashsac.config.schema import TrainConfig
from flashsac.errors import FlashSACError
from flashsac.system.suggest import nearest


def override(config: TrainConfig, changes: dict[str, Any]) -> TrainConfig:
    """The config with changes: values of its own fields, or dicts for its parts (agent={"batch_size": 256})."""
    _check_names(config, changes)
    parts = {
        name: dataclasses.replace(getattr(config, name), **value)
        for name, value in changes.items()
        if isinstance(value, dict)
    }
    return dataclasses.replace(config, **changes | parts)


def _check_names(config: TrainConfig, changes: dict[str, Any]) -> None:
    """Raise an error that names the setting most like a misspelt one."""
    parts = {name: value for name, value in vars(config).items() if dataclasses.is_dataclass(value)}
    spelt = {name: f"{name}=..." for name in (*vars(config), "preset", "quiet")}
    for part, settings in parts.items():
        spelt |= {name: f"{part}=dict({name}=...)" for name in vars(settings)}
    given = [(name, vars(config)) for name in changes]
    for part in parts.keys() & changes.keys():
        if isinstance(changes[part], dict):
            given += [(name, vars(parts[part])) for name in changes[part]]
    for name, known in given:
        if name not in known:
            near = [name] if name in spelt else nearest(name, spelt, count=1, cutoff=0.6)
            hint = f" Did you mean {spelt[near[0]]}?" if near else " `flashsac train TASK --help` shows them all."
            raise FlashSACError(f"there is no setting '{name}' here.{hint}")
