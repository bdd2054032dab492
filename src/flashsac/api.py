"""The library's front door: configure, train, resume."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

import torch

from flashsac.config.checks import check, plain
from flashsac.config.schema import EnvConfig, PresetName, TrainConfig, to_dict
from flashsac.errors import FlashSACError
from flashsac.policies.evaluation import MAX_STEPS
from flashsac.policies.policy import find_policy
from flashsac.policies.video import record
from flashsac.runs.best import best_score
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.directory import Result, Run
from flashsac.runs.metrics import read_metrics
from flashsac.sims.catalog import find_task
from flashsac.sims.defaults import configure
from flashsac.sims.registry import choose_simulator
from flashsac.sims.user_env import check_settings, environments_in, is_only_one
from flashsac.training.precision import fastest_precision
from flashsac.training.trainer import Trainer
from flashsac.types import EnvSpec

VIDEO_SECONDS = 10.0


def resolve(task: Any, config: TrainConfig) -> TrainConfig:
    """Replace every "auto" by what it comes to on this machine, so that the run's config says what was done."""
    config = plain(config)
    check(config)
    device = checked_device(config.device)
    precision = config.precision
    if precision == "auto":
        precision = fastest_precision(torch.device(device))
    env = config.env
    if known := find_task(task):
        env = dataclasses.replace(env, engine=choose_simulator(known, env).name)
    return dataclasses.replace(config, device=device, env=env, precision=precision)


def checked_device(device: str) -> str:
    """What "auto" comes to on this machine; refuses what it does not have."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", device)
    if match is None:
        raise FlashSACError(
            f"--device {device}: there is no such device. Use auto, cpu, cuda, or cuda:1 for the second GPU."
        )
    if device != "cpu" and not torch.cuda.is_available():
        raise FlashSACError(
            f"--device {device}: this PyTorch sees no CUDA device. Use --device cpu (also to resume a run that was begun on a GPU), "
            "or install a CUDA build of torch."
        )
    if int(match[1] or 0) >= max(1, torch.cuda.device_count()):
        raise FlashSACError(f"--device {device}: the last of the GPUs here is cuda:{torch.cuda.device_count() - 1}.")
    return device


def train(
    task: Any,
    config: TrainConfig | None = None,
    *,
    preset: PresetName | None = None,
    quiet: bool = False,
    **overrides: Any,
) -> Result:
    """Train on a task name, a function that makes environments, or an environment object (Gymnasium's, rsl_rl's, a VecEnv)."""
    if config is not None and (preset or overrides):
        beside = ", ".join((["preset"] if preset else []) + list(overrides))
        raise FlashSACError(
            f"train() was given a whole config and, beside it, {beside}. Put them into the config: "
            "flashsac.configure(task, preset, ...) makes one, dataclasses.replace changes one."
        )
    config = resolve(task, config if config is not None else configure(task, preset, **overrides))
    check_settings(task, config.env)
    name = task if isinstance(task, str) else f"custom:{getattr(task, '__name__', type(task).__name__)}"
    if not isinstance(task, str) and not callable(task):
        config = dataclasses.replace(config, env=dataclasses.replace(config.env, num_envs=environments_in(task)))
    if is_only_one(task):
        config = dataclasses.replace(config, video=False, eval=dataclasses.replace(config.eval, every=0))
        if not quiet:
            print(
                "note: this environment object is needed for training, so nothing is evaluated or filmed; the returns of the training "
                "episodes are logged. For both, train by task name, or hand over a function that makes such an object.",
                file=sys.stderr,
            )
    return _run(Run.create(name, config), task, resume=False, quiet=quiet)


def resume(run_dir: str | Path, env: Any = None, *, device: str | None = None, quiet: bool = False) -> Result:
    """Go on with an interrupted run. `env` is needed only if the run was started from Python with an environment of your own, `device`
    only if it is not to be the run's."""
    run = Run.open(run_dir)
    own = run.task.startswith("custom:")
    store = CheckpointStore(run.path, run.task)
    if (step := store.reached(run.config.steps)) is not None:
        run.close()
        if not quiet:
            print(f"{run_dir} is finished: step {step:,} of {run.config.steps:,}. There is nothing left to train.")
        film = run.path / "videos" / "final.mp4"
        video = film if film.exists() else None
        if video is None and run.config.video and not (own and env is None):
            video = _film(run, run.task if env is None else env, quiet)
        row = next(iter(read_metrics(run.path / "metrics.csv")[-1:]), {})
        return Finished(run.path, step, False, row, best_score(run.path).value, video)
    if env is None and own:
        run.close()
        raise FlashSACError(
            f"{run_dir} was trained on an environment of your own ({run.task}); hand it over again: flashsac.resume(run_dir, env)."
        )
    try:
        run.config = dataclasses.replace(run.config, device=checked_device(device or run.config.device))
    except FlashSACError:
        run.close()
        raise
    return _run(run, run.task if env is None else env, resume=True, quiet=quiet)


class Finished(Result):
    """Of a run that had nothing left to do."""


def _run(run: Run, task: Any, *, resume: bool, quiet: bool) -> Result:
    try:
        trainer = Trainer(run, task, resume=resume, quiet=quiet)
        notes = _settle(run, task, trainer.env.spec)
    except BaseException:
        run.close()
        if not resume:
            run.discard()
        raise
    for note in notes:
        trainer.progress.say(note)
    result = trainer.train()
    if run.config.video and not result.interrupted:
        result.video = _film(run, task, quiet)
    return result


def _settle(run: Run, task: Any, spec: EnvSpec) -> list[str]:
    """An environment of the user's own may decide what was asked of it: say so, and let config.json hold what was made."""
    asked, notes = run.config.env, []
    if find_task(task) is None:
        made = dataclasses.replace(asked, num_envs=spec.num_envs, with_state=False)
        if asked.max_episode_steps is not None:
            made = dataclasses.replace(made, max_episode_steps=spec.max_episode_steps)
        if spec.pixels and asked.image_size != EnvConfig().image_size:
            made = dataclasses.replace(made, image_size=spec.pixels.height)
        for name in ("num_envs", "max_episode_steps", "image_size", "with_state"):
            value, wanted = getattr(made, name), getattr(asked, name)
            if value != wanted:
                flag = f"--env.{name.replace('_', '-')}"
                notes.append(
                    f"note: this environment decides by itself, {name} is {value}; {flag} {wanted} does nothing"
                )
        if made != asked:
            run.config = dataclasses.replace(run.config, env=made)
            file = run.path / "config.json"
            content = json.loads(file.read_text()) | {"config": to_dict(run.config)}
            temporary = run.path / ".config.writing"
            temporary.write_text(json.dumps(content, indent=2) + "\n")
            temporary.replace(file)
    if spec.pixels and run.config.agent.n_step == 1:
        notes.append(
            "note: this environment shows images, but the settings are those for state; --preset vision has the paper's for images"
        )
    if spec.max_episode_steps is None and run.config.eval.every != 0:
        notes.append(
            f"note: this environment names no time limit, so evaluation cuts episodes at {MAX_STEPS:,} steps. "
            "--env.max-episode-steps N sets a limit, for training too"
        )
    return notes


def _film(run: Run, task: Any, quiet: bool) -> Path | None:
    """A video of the trained policy; a renderer that fails costs a note, never the run."""
    say = (lambda line: None) if quiet else _print
    say(f"drawing {VIDEO_SECONDS:.0f} s of video (--no-video to skip) ...")
    try:
        policy, out = find_policy(run.path), run.path / "videos" / "final.mp4"
        return record(policy, out, task=task, env=run.config.env, seconds=VIDEO_SECONDS, say=say)
    except Exception as error:  # whatever a user's own environment throws when it is asked to draw
        if not quiet:
            print(f"note: {error}", file=sys.stderr)
        return None


def _print(line: str) -> None:
    with contextlib.suppress(OSError):  # a full disk or a closed terminal costs the line, not the video
        print(line, flush=True)
