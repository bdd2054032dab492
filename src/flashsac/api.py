"""The library's front door: configure, train, resume."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from flashsac.config import PresetName, TrainConfig
from flashsac.errors import FlashSACError
from flashsac.presets import PRESETS
from flashsac.run import Run
from flashsac.sims.registry import SUITES, suite_of
from flashsac.trainer import Result, Trainer


def default_config(task: Any, preset: PresetName | None = None) -> TrainConfig:
    """The paper's setting for a task: its suite's preset and discount."""
    suite = SUITES.get(suite_of(task) or "") if isinstance(task, str) else None
    if preset is None:
        preset = suite.preset if suite else "single"
    if preset not in PRESETS:
        raise FlashSACError(f"there is no preset '{preset}'; take one of {', '.join(PRESETS)}.")
    config = PRESETS[preset]
    return (
        dataclasses.replace(config, agent=dataclasses.replace(config.agent, discount=suite.discount))
        if suite
        else config
    )


def configure(task: Any, preset: PresetName | None = None, **overrides: Any) -> TrainConfig:
    """`default_config` with changes: plain fields, or dicts for the nested parts (agent={"batch_size": 256})."""
    config = default_config(task, preset)
    nested = {
        name: dataclasses.replace(getattr(config, name), **value)
        for name, value in overrides.items()
        if isinstance(value, dict)
    }
    return dataclasses.replace(config, **{**overrides, **nested})


def resolve(config: TrainConfig) -> TrainConfig:
    """Replace every "auto" by what it comes to on this machine, so that the run's config says what was done."""
    import torch

    from flashsac.core.compiler import fastest_precision

    device = config.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise FlashSACError(
            f"--device {device}: this PyTorch sees no CUDA device. Use --device cpu, or install a CUDA build of torch."
        )
    precision = config.agent.precision
    if precision == "auto":
        precision = fastest_precision(torch.device(device))
    return dataclasses.replace(config, device=device, agent=dataclasses.replace(config.agent, precision=precision))


def train(
    task: Any,
    config: TrainConfig | None = None,
    *,
    preset: PresetName | None = None,
    quiet: bool = False,
    **overrides: Any,
) -> Result:
    """Train on a task name, a function that makes Gymnasium environments, or one environment object."""
    config = resolve(config if config is not None else configure(task, preset, **overrides))
    name = task if isinstance(task, str) else f"custom:{getattr(task, '__name__', type(task).__name__)}"
    if not isinstance(task, str) and not callable(task):
        config = dataclasses.replace(config, env=dataclasses.replace(config.env, num_envs=1))
    return _run(Run.create(name, config), task, resume=False, quiet=quiet)


def resume(run_dir: str | Path, env: Any = None, *, quiet: bool = False) -> Result:
    """Go on with an interrupted run. `env` is needed only if the run was started from Python with an environment of your own."""
    run = Run.open(run_dir)
    if env is None and run.task.startswith("custom:"):
        run.close()
        raise FlashSACError(
            f"{run_dir} was trained on an environment of your own ({run.task}); hand it over again: flashsac.resume(run_dir, env)."
        )
    return _run(run, run.task if env is None else env, resume=True, quiet=quiet)


def _run(run: Run, task: Any, *, resume: bool, quiet: bool) -> Result:
    try:
        trainer = Trainer(run, task, resume=resume, quiet=quiet)
    except BaseException:
        run.close()
        if not resume:
            run.discard()
        raise
    return trainer.train()
