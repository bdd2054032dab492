"""From a task's name to the settings of the paper. Needs no torch, so that the command line answers at once."""

from __future__ import annotations

import dataclasses
from typing import Any

from flashsac.config import PresetName, TrainConfig
from flashsac.errors import FlashSACError
from flashsac.presets import PRESETS
from flashsac.sims.registry import environments_in
from flashsac.sims.tasks import SUITES, suite_of


def default_config(task: Any, preset: PresetName | None = None) -> TrainConfig:
    """The paper's setting for a task: its suite's preset and discount; for a user's own, by whether many are simulated at once."""
    suite = SUITES.get(suite_of(task) or "") if isinstance(task, str) else None
    if preset is None:
        preset = suite.preset if suite else "parallel" if environments_in(task) > 1 else "single"
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
    nested = {
        name: dataclasses.replace(getattr(config, name), **value)
        for name, value in overrides.items()
        if isinstance(value, dict)
    }
    return dataclasses.replace(config, **{**overrides, **nested})
