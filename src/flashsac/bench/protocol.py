"""`flashsac bench --run`: the paper's wall-clock protocol, with a run's own settings on its own task.

The paper (appendix A) measures simulation and learning apart, and sums what a run did of both. It measures learning on
one task for all; here each run is measured on its own.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import torch

from flashsac.bench.wall_clock import Stopwatch
from flashsac.config.schema import TrainConfig
from flashsac.errors import FlashSACError, RunDirectoryError
from flashsac.policies.find import check_named_task
from flashsac.runs import layout
from flashsac.runs.directory import Run
from flashsac.runs.metrics_file import Row, read_metrics
from flashsac.runs.provenance import machine
from flashsac.runs.wall_clock import WallClock
from flashsac.training.start import new_run

ROUNDS = 100
"""Steps of all environments that the replay of a measurement holds, or more."""
FEWEST_TRANSITIONS = 20_000
WARMUP = 1000
MACHINE = ("cpus", "processor", "torch_threads", "gpus")
"""What must be the same for times to be comparable."""


def measure_run(
    path: Path, seconds: float, task: str | None = None, *, trust_run: bool = False
) -> tuple[WallClock, list[str]]:
    """Measure a run that does not train now, and write its wall_clock.json; returns it, and notes for the user.

    `task` names the code that makes the environments of a user's own task."""
    run = Run.open(path)  # locked: a run that trains is refused, and none begins meanwhile
    try:
        task = _task_of(run, task, trust_run)
        row = _last_row(path)
        if run.config.device != "cpu" and not torch.cuda.is_available():
            raise FlashSACError(
                f"{path} was trained on {run.config.device}, which this machine does not have. Measure it where it was trained."
            )
        measured = _measure(run, task, row, seconds)
        measured.write(path)
        return measured, [*run.notes, *_notes(run)]
    finally:
        run.close()


def _task_of(run: Run, task: str | None, trust_run: bool) -> str:
    """The task to measure: the run's own, or what makes the environments of a user's own task."""
    if task is None:
        check_named_task(run.path, run.task, trust_run)
        return run.task
    if task != run.task and not run.task.startswith("custom:"):
        raise FlashSACError(f"{run.path} trains on {run.task}, not on {task}. Leave --task away.")
    return task


def _last_row(path: Path) -> Row:
    for row in reversed(read_metrics(path / layout.METRICS)):
        if {"step", "updates", "seconds"} <= row.keys():
            return row
    raise RunDirectoryError(f"{path} has trained nothing yet. Measure it when it has written a row of metrics.")


def _notes(run: Run) -> list[str]:
    here, there = machine(), run.record.get("machine", {})
    different = [name for name in MACHINE if here[name] != there.get(name)]
    if not different:
        return []
    return [
        f"note: the run was trained on another machine or with other threads ({', '.join(different)}). "
        "Do not compare the two times"
    ]


def _measure(run: Run, task: str, row: Row, seconds: float) -> WallClock:
    """Train with the run's settings for so many seconds, in a directory that is deleted afterwards.

    Nothing overlaps: acting, simulation and learning take turns."""
    stopwatch = Stopwatch(seconds)
    with tempfile.TemporaryDirectory() as folder:
        settings = _settings(run.config, folder)
        trainer = new_run(task, settings, name=run.task, quiet=True, hooks=[stopwatch])
        trainer.train()
    if not stopwatch.ended:
        raise KeyboardInterrupt  # Ctrl-C made the trainer end this run; the user meant the measurement
    if not stopwatch.updates:
        raise FlashSACError(f"there was no update within {seconds:g} seconds. Measure for longer, with --seconds.")
    spent, (_, steps) = stopwatch.spent, stopwatch.passed()
    return WallClock(
        task=run.task,
        simulation_seconds_per_step=(spent["simulation"] + spent["replay"]) / steps,
        acting_seconds_per_step=spent["acting"] / steps,
        update_seconds=spent["update"] / stopwatch.updates,
        steps=int(row["step"]),
        updates=int(row["updates"]),
        real_seconds=row["seconds"],
        num_envs=settings.env.num_envs,
        precision=settings.precision,
        compiled=trainer.session.compiled,
        device=settings.device,
        machine=", ".join(f"{name} {value}" for name, value in machine().items() if value),
        measured_steps=steps,
        measured_updates=stopwatch.updates,
    )


def _settings(config: TrainConfig, folder: str) -> TrainConfig:
    """The run's settings, without an end, evaluations and overlap, and with a short warm-up and a small replay."""
    capacity = min(config.replay.capacity, max(FEWEST_TRANSITIONS, ROUNDS * config.env.num_envs))
    return dataclasses.replace(
        config,
        steps=10**9,  # more than anybody measures
        log_every=10**9,
        checkpoint_every=0,
        eval=dataclasses.replace(config.eval, every=0),
        video=False,
        wandb=None,
        trackio=None,
        diagnostics=dataclasses.replace(config.diagnostics, every=0),
        run_dir=f"{folder}/run",
        env=dataclasses.replace(config.env, overlap=False),
        agent=dataclasses.replace(config.agent, warmup=min(config.agent.warmup, WARMUP)),
        replay=dataclasses.replace(config.replay, capacity=capacity),
    )
