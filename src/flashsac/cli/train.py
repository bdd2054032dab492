"""`flashsac train`: a training run."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, get_args

import tyro

from flashsac.cli.parsing import HELP, parse
from flashsac.cli.ranks import NumberOfRanks, has_begun, restarted, without_ranks, world
from flashsac.config.schema import PresetName, TrainConfig
from flashsac.errors import UsageError
from flashsac.runs.inherit import starting_defaults
from flashsac.sims.capacity import check_memory
from flashsac.sims.catalog import check_task, find_task
from flashsac.sims.defaults import default_config, default_preset
from flashsac.sims.registry import choose_simulator
from flashsac.sims.simulator import EnvRequest

EXAMPLE = "mujoco:HalfCheetah-v4"


@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """A training run, and where its defaults come from."""

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """What to train on: suite:task, or module:function of your own that makes a Gymnasium environment."""
    config: Annotated[TrainConfig, tyro.conf.arg(name="")]
    preset: Annotated[str, tyro.conf.arg(metavar=f"{{{','.join(get_args(PresetName))}}}")]
    """Source of the defaults shown here: parallel (1024 environments, GPU), single (one environment, the paper's CPU
    setting), vision (images), laptop (minutes on a CPU)."""
    from_run: Annotated[str | None, tyro.conf.arg(name="from", metavar="RUN")] = None
    """Start from a trained policy: networks, temperature and statistics of this run's newest checkpoint, with a fresh
    schedule. The networks then default to those of that run. (docs/tutorials/continue.md)"""
    from_replay: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Copy the transitions of the replay of the --from run too. Otherwise its policy collects the warm-up."""
    ranks: NumberOfRanks = 1
    batch: Annotated[Literal["total", "per-rank"], tyro.conf.arg(name="batch")] = "total"
    """What --agent.batch-size counts with several ranks: the rows of all of them, or of each one."""


def main(arguments: list[str]) -> int:
    """The command. It parses twice, because the task and the preset decide the defaults of all other options."""
    given = [argument for argument in arguments if argument not in HELP]
    help_wanted = given != arguments
    chosen = _parse(given, TrainOptions(task="" if help_wanted else tyro.MISSING, config=TrainConfig(), preset=""))
    if chosen.task:
        check_task(chosen.task)
    example = chosen.task or EXAMPLE
    preset: Any = chosen.preset or default_preset(example)
    whose = "as chosen" if chosen.preset else f"which {example} has without --preset"
    defaults = starting_defaults(default_config(example, preset), chosen.from_run, chosen.from_replay)
    options = _parse(
        arguments,
        TrainOptions(task=tyro.MISSING, config=defaults, preset=preset),
        f"Train {chosen.task or 'a robot'}. The defaults shown are those of the preset {preset}, {whose}.",
    )
    count, here = world(options.ranks)
    if count > 1 and options.config.run_dir is None:
        raise UsageError(
            "where to? Several ranks need a directory that they find again when they are restarted: --run-dir DIR"
        )
    config = options.config
    if options.batch == "per-rank":
        config = dataclasses.replace(
            config, agent=dataclasses.replace(config.agent, batch_size=config.agent.batch_size * count)
        )
    if known := find_task(options.task):  # before torch and the simulator are loaded, so that a refusal comes at once
        env = dataclasses.replace(config.env, num_envs=config.env.num_envs * here // count)
        check_memory(known, choose_simulator(known, env), EnvRequest.of(env, options.config.device))
    if options.ranks > 1:
        from flashsac.training.launch import launch

        return launch(["train", *without_ranks(arguments)], options.ranks)
    if restarted() and not has_begun(str(config.run_dir)):
        return 1  # what was wrong before the first checkpoint is still wrong
    from flashsac import api

    if restarted():
        return api.resume(str(config.run_dir), options.task).exit_code
    result = api.train(options.task, config, from_run=options.from_run, from_replay=options.from_replay)
    return result.exit_code


def _parse(arguments: list[str], default: TrainOptions, description: str | None = None) -> TrainOptions:
    question = f"which task? It comes first: flashsac train {EXAMPLE} --preset laptop"
    return parse(TrainOptions, arguments, "train", question=question, default=default, description=description)
