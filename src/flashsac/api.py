"""The library's front door: train, resume, evaluate, play, export."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flashsac.config.overrides import override
from flashsac.config.schema import PresetName, TrainConfig
from flashsac.errors import FlashSACError
from flashsac.policies.evaluation import Evaluation, evaluate_policy
from flashsac.policies.export import export_run
from flashsac.policies.find import check_named_task, locate_policy, policy_file
from flashsac.policies.policy import Policy
from flashsac.policies.video import checked_out, record
from flashsac.runs.best import best_score
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.directory import Run
from flashsac.runs.inherit import starting_defaults
from flashsac.runs.metrics import read_metrics
from flashsac.sims.defaults import default_config
from flashsac.sims.user_env import is_only_one
from flashsac.training.distributed import join_ranks
from flashsac.training.hooks import Hooks
from flashsac.training.shared_run import led_run
from flashsac.training.start import checked_device, new_run, resume_run
from flashsac.training.start_from import find_parent, for_more_steps, require_same_networks
from flashsac.training.summary import named_task, summary
from flashsac.training.trainer import Result, Trainer

VIDEO_SECONDS = 10.0
SEED = 12345
"""Seed of the episodes that `evaluate` and `play` show, unless another is given."""


def train(
    task: Any,
    config: TrainConfig | None = None,
    *,
    preset: PresetName | None = None,
    from_run: str | Path | None = None,
    from_replay: bool = False,
    quiet: bool = False,
    hooks: Sequence[Hooks] = (),
    **overrides: Any,
) -> Result:
    """Train, and return what the run came to.

    - `task`: a task name, a function that makes environments, or an environment (Gymnasium's, rsl_rl's, a VecEnv).
    - `preset`, `overrides`: the settings, by the names of the flags: `steps=20_000, agent=dict(batch_size=64)`.
    - `config`: a whole configuration instead of both; `configure` makes one.
    - `from_run`: a run whose newest networks are taken, and with `from_replay` its transitions too.
    - `hooks`: code of yours that runs at given moments. `quiet` prints nothing.
    """
    if config is not None and (preset or overrides):
        beside = ", ".join((["preset"] if preset else []) + list(overrides))
        raise FlashSACError(
            f"train() was given a whole config and, beside it, {beside}. Put them into the config: "
            "flashsac.configure(task, preset, ...) makes one, dataclasses.replace changes one."
        )
    if config is None:
        config = override(starting_defaults(default_config(task, preset), from_run, from_replay), overrides)
    if is_only_one(task) and not quiet:
        print(
            "note: this environment object is needed for training, so nothing is evaluated or filmed; the returns of the training "
            "episodes are logged. For both, train by task name, or hand over a function that makes such an object.",
            file=sys.stderr,
        )
    parent = None
    if from_run is not None:
        require_same_networks(config, from_run)
        parent = find_parent(from_run, "networks and replay" if from_replay else "networks")
    return _train_and_film(new_run(task, config, quiet=quiet, hooks=hooks, parent=parent), task, quiet)


def resume(
    run_dir: str | Path,
    env: Any = None,
    *,
    device: str | None = None,
    quiet: bool = False,
    hooks: Sequence[Hooks] = (),
    trust_run: bool = False,
    steps: int | None = None,
    new_run_dir: str | Path | None = None,
) -> Result:
    """Go on with an interrupted run, or with `steps` continue a run in a new directory, `new_run_dir`.

    - `steps`: the steps in all, those of the old run included.
    - `env`: needed only if the run was started with an environment of your own. Its code runs only if you hand it over,
      name it (module:function), or set `trust_run`.
    - `device`: another device than before.
    """
    if new_run_dir is not None and steps is None:
        raise FlashSACError("a run is resumed where it is. For more steps in a new run directory, give --steps too.")
    ranks = join_ranks()
    run = led_run(ranks, lambda: Run.open(run_dir))
    problem = _why_not_resume(run, env, trust_run)
    if steps is not None:
        return _continue(run, env, problem, device, steps, new_run_dir, quiet, hooks)
    store = CheckpointStore(run.path, run.task, record=run.record)
    if (step := ranks.share(store.reached(run.config.steps))[0]) is not None:
        run.close()
        if not quiet:
            for note in run.notes:
                print(note, file=sys.stderr)
            print(f"{run_dir} is finished: step {step:,} of {run.config.steps:,}. There is nothing left to train.")
            more = f"flashsac resume {run_dir} --steps {2 * run.config.steps}{named_task(run.task, env)}"
            print(f"for more steps, in a new run:\n  {more}")
        film = run.path / "videos" / "final.mp4"
        video = film if film.exists() else None
        if video is None and run.config.video and problem is None:
            video = _film(run, run.task if env is None else env, quiet)
        row = next(iter(read_metrics(run.path / "metrics.csv")[-1:]), {})
        finished = Result(run.path, step, False, row, best_score(run.path).value, video, was_finished=True)
        return _summed_up(finished, env, quiet)
    try:
        if problem is not None:
            raise problem
        run.config = dataclasses.replace(run.config, device=checked_device(device or run.config.device))
    except FlashSACError:
        run.close()
        raise
    task = run.task if env is None else env
    return _train_and_film(resume_run(run, task, quiet=quiet, hooks=hooks, ranks=ranks), task, quiet)


def _continue(
    run: Run,
    env: Any,
    problem: FlashSACError | None,
    device: str | None,
    steps: int,
    run_dir: str | Path | None,
    quiet: bool,
    hooks: Sequence[Hooks],
) -> Result:
    """A new run that goes on from everything that `run` has. `run` is locked until that is copied, and then closed."""
    task = run.task if env is None else env
    with contextlib.closing(run):
        if problem is not None:
            raise problem
        config = for_more_steps(run.config, run.path, steps, run_dir)
        config = dataclasses.replace(config, device=checked_device(device or config.device))
        trainer = new_run(task, config, name=run.task, quiet=quiet, hooks=hooks, continue_from=run.path)
    return _train_and_film(trainer, task, quiet)


def _why_not_resume(run: Run, env: Any, trust_run: bool) -> FlashSACError | None:
    """The reason why a run's environments may not be made from `env`, or from its own config; None if they may."""
    if isinstance(env, str) and env != run.task and not run.task.startswith("custom:"):
        return FlashSACError(
            f"{run.path} trains on {run.task}, not on {env}: the task of a run is fixed when it begins. For another task begin a new "
            f"run: flashsac train {env} --run-dir ANOTHER"
        )
    try:
        if env is None:
            check_named_task(run.path, run.task, trust_run)
    except FlashSACError as error:
        return error
    return None


def _train_and_film(trainer: Trainer, task: Any, quiet: bool) -> Result:
    run, quiet = trainer.session.run, quiet or trainer.session.ranks.rank > 0
    result = trainer.train()
    if run.config.video and not result.interrupted:
        result.video = _film(run, task, quiet)
    return _summed_up(result, task, quiet)


def _summed_up(result: Result, task: Any, quiet: bool) -> Result:
    if not quiet:
        _print(summary(result, task))
    return result


def _film(run: Run, task: Any, quiet: bool) -> Path | None:
    """A video of the trained policy; a renderer that fails costs a note, never the run."""
    say = (lambda line: None) if quiet else _print
    say(f"drawing {VIDEO_SECONDS:.0f} s of video (--no-video to skip) ...")
    try:
        policy, out = policy_file(run.path), run.path / "videos" / "final.mp4"
        return record(policy, out, task=task, env=run.config.env, seconds=VIDEO_SECONDS, say=say)
    except Exception as error:  # whatever a user's own environment throws when it is asked to draw
        if not quiet:
            print(f"note: {error}", file=sys.stderr)
        return None


def _print(line: str) -> None:
    with contextlib.suppress(OSError):  # a full disk or a closed terminal costs the line, not the video
        print(line, flush=True)


def evaluate(
    run_or_policy: str | Path | Policy,
    env: Any = None,
    episodes: int = 10,
    seed: int = SEED,
    *,
    checkpoint: str | int | None = None,
    options: Sequence[str] | None = None,
    engine: str | None = None,
    trust_run: bool = False,
) -> Evaluation:
    """Returns, lengths and successes of a trained policy.

    `env` is a task name, a function that makes environments, or an environment. A run that was begun with an
    environment of your own needs it. With `trust_run` the module that a run directory names is imported instead, and
    its code runs. `options` ("name=value") and `engine` replace those of the training; `()` gives the task's own
    settings.
    """
    located = locate_policy(run_or_policy, env, checkpoint, options, engine, trust_run=trust_run)
    return evaluate_policy(located, episodes, seed)


def play(
    run_or_policy: str | Path | Policy,
    env: Any = None,
    out: str | Path | None = None,
    *,
    seconds: float = 15.0,
    seed: int = SEED,
    checkpoint: str | int | None = None,
    options: Sequence[str] | None = None,
    engine: str | None = None,
    trust_run: bool = False,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Film a trained policy; returns the video (default: play.mp4 among the run's videos). The rest as in
    `evaluate`."""
    file = None if out is None else checked_out(Path(out))  # before anything is made
    located = locate_policy(run_or_policy, env, checkpoint, options, engine, trust_run=trust_run)
    out = file or located.videos / "play.mp4"
    return record(located.policy, out, task=located.task, env=located.env, seed=seed, seconds=seconds, say=say)


def export(
    run_or_policy: str | Path,
    env: Any = None,
    out: str | Path | None = None,
    *,
    observations: int = 10_000,
    checkpoint: str | int | None = None,
    trust_run: bool = False,
) -> Path:
    """Write a trained policy as ONNX; returns the file (default: policy.onnx in the run).

    It is compared with the policy on `observations` of the simulator before it is kept. The rest as in `evaluate`.
    """
    file = None if out is None else Path(out)
    return export_run(
        Path(run_or_policy), env, file, observations=observations, checkpoint=checkpoint, trust_run=trust_run
    ).file
