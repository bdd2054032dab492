"""Several processes of one command: the option that starts them, and what each of them is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import tyro

from flashsac.errors import UsageError
from flashsac.runs import layout

NumberOfRanks = Annotated[
    int,
    tyro.conf.arg(
        help="Processes on this machine that train together. Each has its share of environments, replay and batch. torchrun "
        "starts them, and starts them again if one dies (docs/scale.md)."
    ),
]


def world(ranks: int) -> tuple[int, int]:
    """The processes that train together, and how many of them are on this machine.

    They are those that torchrun has started, or those that `--ranks` will."""
    if ranks < 1:
        raise UsageError(f"--ranks {ranks}: take 1 or more.")
    if not is_rank():
        return ranks, ranks
    if ranks > 1:
        raise UsageError("torchrun has started the ranks already: leave --ranks out.")
    return int(os.environ["WORLD_SIZE"]), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def is_rank() -> bool:
    """True in a process that torchrun started as one of several."""
    return "RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def restarted() -> bool:
    """True if torchrun has started this process in place of one that failed."""
    return is_rank() and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def has_begun(run_dir: str) -> bool:
    """True if there is a checkpoint to go on from. Several ranks write the first one before they train."""
    return bool(layout.checkpoint_folders(Path(run_dir) / layout.CHECKPOINTS))


def without_ranks(arguments: list[str]) -> list[str]:
    """The arguments for each of the processes."""
    kept, skip = [], False
    for argument in arguments:
        if not skip and argument != "--ranks" and not argument.startswith("--ranks="):
            kept.append(argument)
        skip = argument == "--ranks"
    return kept
