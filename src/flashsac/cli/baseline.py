"""`flashsac baseline`: a training run of another algorithm, for comparison."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import tyro

from flashsac.cli.parsing import parse
from flashsac.config.schema import EnvConfig, EvalConfig, TrainConfig
from flashsac.errors import UsageError
from flashsac.sims.catalog import check_task
from flashsac.sims.defaults import default_config
from flashsac.system.limits import Above, AtLeast, Between, check_limits


@dataclasses.dataclass(frozen=True)
class BaselineEnv:
    """The simulator."""

    num_envs: Annotated[int | None, AtLeast(1)] = None
    """Environments stepped together (default: 128 for ppo, 1 for the others)."""
    engine: str = "auto"
    """Which implementation simulates the task, by the names of `flashsac list`."""
    max_episode_steps: Annotated[int | None, AtLeast(1)] = None
    """Cut episodes after this many steps (default: the task's own limit)."""
    blind: bool = False
    """Hide the base's linear velocity from the actor, as robots without an estimator do; for Playground's joystick
    tasks."""
    options: tuple[str, ...] = ()
    """Settings of the simulator's own, as name=value."""


@dataclasses.dataclass(frozen=True)
class BaselineOptions:
    """Train another algorithm, by its own library, on the same task, with the same evaluation, clock and run directory
    as FlashSAC.

    `flashsac report` draws such runs beside those of FlashSAC, and `flashsac resume` goes on with them."""

    algorithm: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ALGO")]
    """ppo (rsl-rl-lib), sac, td3 (Stable-Baselines3), crossq, tqc or sbx-sac (sbx, in JAX)."""
    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """What to train on: suite:task, or module:function of your own that makes a Gymnasium environment."""
    steps: Annotated[int | None, AtLeast(1)] = None
    """Transitions to collect in all (default: as many as `flashsac train`)."""
    minutes: Annotated[float | None, Above(0)] = None
    """Train for so long instead, evaluations not counted."""
    as_long_as: Annotated[str | None, tyro.conf.arg(metavar="RUN")] = None
    """Train for as long as this run did, instead."""
    set: tuple[str, ...] = ()
    """Hyperparameters in place of the library's defaults, as name=value, by the library's names: gamma=0.98."""
    seed: Annotated[int, Between(0, 2**31 - 1, "[]")] = 0
    """Seed of everything random."""
    run_dir: str | None = None
    """Directory to write the run to (default: runs/TASK/DATE-seed)."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1, ...; for ppo, sac and td3. JAX chooses its own: JAX_PLATFORMS=cuda, by default cpu."""
    threads: Annotated[int | None, AtLeast(1)] = None
    """CPU threads for the networks (default: what OMP_NUM_THREADS says, else what the library takes)."""
    video: bool = True
    """Record a video of the trained policy at the end."""
    max_invalid: Annotated[float, AtLeast(0)] = 0.01
    """Stop when more than this share of the transitions held NaN or Inf."""
    env: BaselineEnv = dataclasses.field(default_factory=BaselineEnv)
    eval: EvalConfig = dataclasses.field(default_factory=EvalConfig)


def main(arguments: list[str]) -> int:
    """The command."""
    question = "which algorithm, and which task? usage: flashsac baseline sac mujoco:HalfCheetah-v4"
    options = parse(BaselineOptions, arguments, "baseline", question=question)
    check_limits(options)
    if sum(length is not None for length in (options.steps, options.minutes, options.as_long_as)) > 1:
        raise UsageError("--steps, --minutes and --as-long-as each say how long to train: give one of them.")
    check_task(options.task)
    from flashsac.experiments.baselines.algorithms import find_algorithm
    from flashsac.experiments.baselines.plan import minutes_of, new_plan
    from flashsac.experiments.baselines.start import train

    given = dataclasses.asdict(options.env)
    num_envs = given.pop("num_envs") or find_algorithm(options.algorithm).num_envs
    config = TrainConfig(
        steps=options.steps or default_config(options.task).steps,
        seed=options.seed,
        run_dir=options.run_dir,
        device=options.device,
        video=options.video,
        max_invalid=options.max_invalid,
        env=EnvConfig(num_envs=num_envs, **given),
        eval=options.eval,
    )
    minutes = minutes_of(options.as_long_as) if options.as_long_as else options.minutes
    return train(
        new_plan(options.algorithm, options.task, config, minutes=minutes, changes=options.set, threads=options.threads)
    )
