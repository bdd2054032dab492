"""From a task's name to the settings of the paper. Needs no torch, so that the command line answers at once."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any

from flashsac.config.presets import PRESETS
from flashsac.config.schema import PresetName, TrainConfig
from flashsac.errors import FlashSACError
from flashsac.sims.catalog import suite_of
from flashsac.sims.user_env import environments_in


def default_preset(task: Any) -> PresetName:
    """The paper's choice for a suite; for a user's own by whether many are simulated at once."""
    suite = suite_of(task)
    return suite.preset if suite else "parallel" if environments_in(task) > 1 else "single"


def default_config(task: Any, preset: PresetName | None = None) -> TrainConfig:
    """The paper's setting for a task: its suite's preset and discount."""
    suite = suite_of(task)
    preset = preset or default_preset(task)
    if preset not in PRESETS:
        raise FlashSACError(f"there is no preset '{preset}'; take one of {', '.join(PRESETS)}.")
    config = PRESETS[preset]
    if suite is None:
        return config
    n_step = config.agent.n_step if suite.n_step is None else suite.n_step
    return dataclasses.replace(config, agent=dataclasses.replace(config.agent, discount=suite.discount, n_step=n_step))


def configure(task: Any, preset: PresetName | None = None, **overrides: Any) -> TrainConfig:
    """`default_config` with changes: plain fields, or dicts for the nested parts (agent={"batch_size": 256})."""
    config = default_config(task, preset)
    _check_names(config, overrides)
    nested = {
        name: dataclasses.replace(getattr(config, name), **value)
        for name, value in overrides.items()
        if isinstance(value, dict)
    }
    return dataclasses.replace(config, **{**overrides, **nested})


def _check_names(config: TrainConfig, overrides: dict[str, Any]) -> None:
    """A misspelt setting is an error that names the nearest."""
    parts = {name: value for name, value in vars(config).items() if dataclasses.is_dataclass(value)}
    spelt = {name: f"{name}=..." for name in (*vars(config), "preset", "quiet")}
    for part, settings in parts.items():
        spelt |= {name: f"{part}=dict({name}=...)" for name in vars(settings)}
    given = [(name, vars(config)) for name in overrides]
    for part in parts.keys() & overrides.keys():
        if isinstance(overrides[part], dict):
            given += [(name, vars(parts[part])) for name in overrides[part]]
    for name, known in given:
        if name not in known:
            near = [name] if name in spelt else difflib.get_close_matches(name, spelt, n=1)
            hint = f" Did you mean {spelt[near[0]]}?" if near else " `flashsac train TASK --help` shows them all."
            raise FlashSACError(f"there is no setting '{name}' here.{hint}")
