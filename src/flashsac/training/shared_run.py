"""One run of several ranks: the first one makes or opens it, and each has its share of the work."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from pathlib import Path

from flashsac.config.schema import EnvConfig, TrainConfig, from_dict, to_dict
from flashsac.errors import FlashSACError, LeadFailed
from flashsac.runs.directory import Run
from flashsac.system.files import make_folder
from flashsac.training.distributed import local_rank
from flashsac.training.ranks import Ranks
from flashsac.training.redistribute import rank_folder


def led_run(ranks: Ranks, make: Callable[[], Run]) -> Run:
    """The run that the first rank makes or opens; the others have run directories of their own inside it."""
    if ranks.count == 1:
        return make()
    run: Run | None = None
    problem: FlashSACError | None = None
    if ranks.rank == 0:
        try:
            run = make()
            check_shares(run.config, ranks.count)
        except FlashSACError as error:
            problem = error
    facts = None if run is None or problem else [str(run.path.absolute()), run.task, to_dict(run.config), run.record]
    shared = ranks.share(facts)[0]
    if problem is not None:
        if run is not None:
            run.close()
        raise problem
    if shared is None:
        raise LeadFailed
    path, task, config, record = shared
    if run is None:
        run = _followed(path, task, from_dict(config), record, ranks.rank)
    if run.config.device.startswith("cuda"):
        run.config = dataclasses.replace(run.config, device=f"cuda:{local_rank()}")
    return run


def _followed(path: str, task: str, config: TrainConfig, record: dict, rank: int) -> Run:
    """The run of another rank than the first. It logs to files alone, and says and films nothing."""
    folder = rank_folder(Path(path), rank)
    with contextlib.suppress(FileExistsError):
        make_folder(folder.parent)
    with contextlib.suppress(FileExistsError):
        make_folder(folder)
    return Run(folder, task, dataclasses.replace(config, video=False, wandb=None, trackio=None), dict(record))


def check_shares(config: TrainConfig, count: int) -> None:
    """Raise unless environments and batch can be shared equally."""
    for name, value in (("--env.num-envs", config.env.num_envs), ("--agent.batch-size", config.agent.batch_size)):
        if value % count:
            up = -(-value // count) * count
            raise FlashSACError(
                f"{name} {value} cannot be shared equally by {count} ranks: it is the number for all of them. Take {up}, for example."
            )
    if config.agent.batch_size < 2 * count:
        raise FlashSACError(
            f"--agent.batch-size {config.agent.batch_size} leaves a rank less than 2 rows. Take fewer ranks."
        )


def require_one_rank_for(parent: object, config: TrainConfig) -> None:
    """Refuse what a run of several ranks cannot do yet."""
    if parent is not None:
        raise FlashSACError("--from, and --steps of a resumed run, need a run of one process: leave --ranks out.")
    if config.diagnostics.every:
        raise FlashSACError("--diagnostics.every needs a run of one process: leave --ranks out, or the diagnostics.")


def share_of(env: EnvConfig, ranks: Ranks) -> EnvConfig:
    """The environments of one rank."""
    return env if ranks.count == 1 else dataclasses.replace(env, num_envs=env.num_envs // ranks.count)


def rules(config: TrainConfig, ranks: Ranks) -> list[str]:
    """What the numbers of the settings mean with several ranks, for the user."""
    if ranks.count == 1:
        return []
    env, agent, n = config.env, config.agent, ranks.count
    return [
        f"{n} ranks, and all settings are totals. Each rank has {env.num_envs // n} of {env.num_envs} environments and "
        f"{agent.batch_size // n} of {agent.batch_size} rows of a batch",
        f"replay and warm-up are shared by {n} too; update ratio and learning rate are those of one process",
    ]
