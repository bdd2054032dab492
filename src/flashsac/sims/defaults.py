"""The paper's settings by the task's name. This module needs no torch, so that the command line answers at once."""

from __future__ import annotations

import dataclasses
from typing import Any

from flashsac.config.overrides import override
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
    return override(default_config(task, preset), overrides)
