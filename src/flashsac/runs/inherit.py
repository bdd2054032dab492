"""The default settings of a run that starts from another one. This needs no torch, so that the command line answers at
once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from flashsac.config.networks import with_networks_of
from flashsac.config.schema import TrainConfig
from flashsac.errors import CheckpointError, FlashSACError
from flashsac.runs.directory import read_config


def starting_defaults(config: TrainConfig, from_run: str | Path | None, from_replay: bool) -> TrainConfig:
    """The default settings of a run that starts from another one: its networks, and no warm-up where its replay is
    copied."""
    if from_run is None:
        if from_replay:
            raise FlashSACError("--from-replay copies the replay of another run: name that run with --from RUN.")
        return config
    config = with_networks_of(config, parent_settings(from_run))
    return dataclasses.replace(config, agent=dataclasses.replace(config.agent, warmup=0)) if from_replay else config


def parent_settings(run: str | Path) -> TrainConfig:
    """The settings of a run to start from; refuses a policy file, which may be named by mistake."""
    if Path(run).is_file():
        raise CheckpointError(
            f"{run} is a file. A policy file holds the actor alone, and training goes on from critics, temperature and statistics "
            "too: name the run directory."
        )
    return read_config(run)[1]
