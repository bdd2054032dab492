"""The default settings of a run that starts from another one. Needs no torch, so that the command line answers at once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from flashsac.config.networks import with_networks_of
from flashsac.config.schema import TrainConfig
from flashsac.errors import FlashSACError
from flashsac.runs.directory import read_config


def starting_defaults(config: TrainConfig, from_run: str | Path | None, from_replay: bool) -> TrainConfig:
    """The default settings of a run that starts from another one: its networks, and no warm-up where its replay is copied."""
    if from_run is None:
        if from_replay:
            raise FlashSACError("--from-replay copies the replay of another run: name that run with --from RUN.")
        return config
    config = with_networks_of(config, read_config(from_run)[1])
    return dataclasses.replace(config, agent=dataclasses.replace(config.agent, warmup=0)) if from_replay else config
