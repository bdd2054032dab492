"""How a run begins: settled once, then its directory, its environments and its parts are made."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from flashsac.config.checks import check, coerce, with_time_to_learn
from flashsac.config.schema import EnvConfig, TrainConfig
from flashsac.errors import FlashSACError
from flashsac.runs.directory import Run
from flashsac.runs.parent import Parent
from flashsac.sims.base import no_exit
from flashsac.sims.catalog import find_task
from flashsac.sims.make import make_env
from flashsac.sims.registry import choose_simulator
from flashsac.sims.user_env import check_settings, environments_in, is_only_one
from flashsac.system.limits import flag
from flashsac.training.build import build_trainer
from flashsac.training.distributed import join_ranks
from flashsac.training.hooks import Hooks
from flashsac.training.precision import fastest_precision
from flashsac.training.progress import Progress
from flashsac.training.ranks import ONE_RANK, Ranks
from flashsac.training.shared_run import led_run, require_one_rank_for, rules, share_of
from flashsac.training.start_from import find_parent
from flashsac.training.trainer import Trainer
from flashsac.types import EnvSpec


def new_run(
    task: Any,
    config: TrainConfig,
    *,
    name: str | None = None,
    quiet: bool = False,
    hooks: Sequence[Hooks] = (),
    parent: Parent | None = None,
    continue_from: Path | None = None,
) -> Trainer:
    """A new run of a task name, a function that makes environments, or an environment object.

    `name` is what the run calls its task. `parent` is a checkpoint of another run, whose networks this one starts from.
    `continue_from` is another run, whose newest checkpoint this one goes on from with everything.
    """
    ranks = join_ranks()
    run = led_run(ranks, lambda: _create(task, config, name, parent, continue_from, ranks))
    try:
        if continue_from is not None:
            run.copy_contents(continue_from)
        return _make_env_and_build(run, task, ranks, resume=continue_from is not None, quiet=quiet, hooks=hooks)
    except BaseException:
        run.close()
        if ranks.count == 1:
            run.discard()
        raise


def _create(
    task: Any, config: TrainConfig, name: str | None, parent: Parent | None, continue_from: Path | None, ranks: Ranks
) -> Run:
    """The directory of a new run, with everything settled that its config.json will say."""
    if ranks.count > 1:
        require_one_rank_for(parent or continue_from, config)
    settled = settle(task, config, ranks.count)
    if continue_from is not None:
        parent = find_parent(continue_from, "everything")
    run = Run.create(name or task_name(task), settled)
    run.record |= parent.record() if parent else {}
    if settled.agent.warmup != config.agent.warmup:
        run.notes.append(
            f"note: the warm-up of {config.agent.warmup:,} steps would last the whole run of {settled.steps:,} steps, so it "
            f"is shortened to {settled.agent.warmup:,}. This is enough for a trial, not to learn a task"
        )
    return run


def resume_run(
    run: Run, task: Any, *, quiet: bool = False, hooks: Sequence[Hooks] = (), ranks: Ranks = ONE_RANK
) -> Trainer:
    """An existing run, to go on with it."""
    try:
        return _make_env_and_build(run, task, ranks, resume=True, quiet=quiet, hooks=hooks)
    except BaseException:
        run.close()
        raise


def _make_env_and_build(
    run: Run, task: Any, ranks: Ranks, *, resume: bool, quiet: bool, hooks: Sequence[Hooks]
) -> Trainer:
    progress = Progress(run.config.steps, quiet or ranks.rank > 0)
    for line in rules(run.config, ranks):
        progress.say(line)
    share = share_of(run.config.env, ranks)
    with no_exit("its start"):
        with _announced_if_slow(f"making {share.num_envs:,} environments ...", progress.say):
            env = make_env(task, share, device=run.config.device)
        try:
            run.config, notes = with_environment_facts(task, run.config, env.spec, ranks.count)
        except BaseException:
            env.close()
            raise
        return build_trainer(run, task, env, progress, resume=resume, hooks=hooks, notes=notes, ranks=ranks)


@contextlib.contextmanager
def _announced_if_slow(line: str, say: Callable[[str], None], seconds: float = 1.0) -> Iterator[None]:
    """Say what is being done once it takes longer than this."""
    timer = threading.Timer(seconds, say, [line])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def task_name(task: Any) -> str:
    """What run and policy call it."""
    return task if isinstance(task, str) else f"custom:{getattr(task, '__name__', type(task).__name__)}"


def settle(task: Any, config: TrainConfig, ranks: int = 1) -> TrainConfig:
    """Replace every "auto" by what it comes to on this machine, so that the run's config says what was done."""
    config = coerce(config)
    check(config)
    config = with_time_to_learn(config)
    env, known = config.env, find_task(task)
    if known:
        env = dataclasses.replace(env, engine=choose_simulator(known, env).name)
    else:
        check_settings(task, env)
    if not isinstance(task, str) and not callable(task):
        env = dataclasses.replace(env, num_envs=environments_in(task) * ranks)
    if is_only_one(task):  # nothing can be evaluated or filmed
        config = dataclasses.replace(config, video=False, eval=dataclasses.replace(config.eval, every=0))
    device = checked_device(config.device)
    precision = fastest_precision(torch.device(device)) if config.precision == "auto" else config.precision
    return dataclasses.replace(config, device=device, env=env, precision=precision)


def checked_device(device: str) -> str:
    """What "auto" comes to on this machine; refuses a device that it does not have."""
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


def with_environment_facts(
    task: Any, config: TrainConfig, spec: EnvSpec, ranks: int = 1
) -> tuple[TrainConfig, list[str]]:
    """A user's own environment may decide what was asked of it: the config holds what was made, the notes say so."""
    asked, notes = config.env, []
    made = asked
    if find_task(task) is None:
        made = dataclasses.replace(asked, num_envs=spec.num_envs * ranks, with_state=False)
        if asked.max_episode_steps is not None:
            made = dataclasses.replace(made, max_episode_steps=spec.max_episode_steps)
        if spec.pixels and asked.image_size != EnvConfig().image_size:
            made = dataclasses.replace(made, image_size=spec.pixels.height)
    for field in dataclasses.fields(EnvConfig):
        value, wanted = getattr(made, field.name), getattr(asked, field.name)
        if value != wanted:
            spelled = f"{flag(field.name, '--env.')} {wanted}"
            notes.append(f"note: this environment decides by itself, {field.name} is {value}; {spelled} does nothing")
    if spec.pixels and config.agent.n_step == 1:
        notes.append(
            "note: this environment shows images, but the settings are those for state; --preset vision has the paper's for images"
        )
    return dataclasses.replace(config, env=made), notes
