"""The making of everything a run consists of, from a settled configuration."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import torch

from flashsac.config.schema import TrainConfig
from flashsac.core.agent import Agent
from flashsac.core.encoders.build import ENCODERS
from flashsac.core.replay import Replay
from flashsac.core.update import Learner
from flashsac.policies.evaluation import Evaluation
from flashsac.policies.evaluation_process import make_evaluator
from flashsac.runs import layout
from flashsac.runs.best import BestPolicy
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.directory import Run
from flashsac.runs.disk import FolderWatch, Reserve, tensor_bytes
from flashsac.runs.metrics import MetricsLog
from flashsac.sims.base import VecEnv
from flashsac.system.memory import keep_freed_memory
from flashsac.training.compile import compiler_for, compiler_missing
from flashsac.training.counters import Clock, EpisodeStats, UpdateBudget, intervals
from flashsac.training.diagnostics import diagnostics_hooks
from flashsac.training.env_metrics import EnvMetrics
from flashsac.training.health import SimulatorWatch
from flashsac.training.hooks import Hooks, declared_metrics
from flashsac.training.precision import DTYPES, precision_notes
from flashsac.training.progress import Progress
from flashsac.training.ranks import ONE_RANK, Ranks
from flashsac.training.replay_storage import make_replay, remove_ring
from flashsac.training.restoring import restore
from flashsac.training.session import Session
from flashsac.training.start_from import begin_from_parent
from flashsac.training.trainer import Trainer

PARTS = (Trainer, EpisodeStats, Evaluation, Learner, Agent, Replay, Clock, *ENCODERS)
"""The parts of a run that report metrics. Each declares its own in METRICS, with their meanings."""
COLUMNS = [name for part in PARTS for name in part.METRICS]
"""The columns of metrics.csv. Those of the environment come after them."""
POLICY_EXTRA = 2**16
"""Bytes of a policy file beside its tensors, and more: its header, and the folder that lists it."""


class Closable(Protocol):
    def close(self) -> Any: ...


Part = TypeVar("Part", bound=Closable)


def build_trainer(
    run: Run,
    task: Any,
    env: VecEnv,
    progress: Progress,
    *,
    resume: bool = False,
    hooks: Sequence[Hooks] = (),
    notes: Sequence[str] = (),
    ranks: Ranks = ONE_RANK,
) -> Trainer:
    """A trainer for this run. What was handed over is closed with it, and also if it cannot be built."""
    opened = contextlib.ExitStack()
    try:
        for part in (run, progress, env):
            opened.callback(part.close)
        hooks = (*hooks, *diagnostics_hooks(run.config))
        columns = [*COLUMNS, *declared_metrics(hooks, COLUMNS)]
        session, more = _build_session(run, task, env, progress, opened, resume, columns, ranks)
        for line in (*run.notes, *more, *notes):
            progress.say(line)
        progress.say(_learning_plan(session))
        collecting = "steps of the loaded policy" if session.agent.policy_collects else "random steps"
        progress.begin(session.step, session.clock.seconds, collecting)
        trainer = Trainer(session, hooks)
        # From here on the run does not need its parent, and ranks that are started again find a checkpoint.
        if (run.parent or ranks.count > 1) and not ranks.share(bool(session.store.newest))[0]:
            trainer.save(fatal=True)
        return trainer
    except BaseException:
        opened.close()
        raise


def _learning_plan(session: Session) -> str:
    """One line that says when learning starts, and how much of it there will be."""
    copied = session.run.parent.transitions if session.run.parent else 0
    config, num_envs = session.config, session.num_envs
    start = max(0, config.agent.warmup - copied)
    random_rounds = max(1, math.ceil(start / num_envs)) - 1  # a round is one step of every environment
    learning_rounds = math.ceil(config.steps / num_envs) - random_rounds
    updates = math.floor(config.agent.updates_per_transition * num_envs * learning_rounds + 1e-9)
    begins = f"learning starts at step {start:,}" if session.step <= start else "learning goes on"
    return f"{begins}; {updates:,} updates in all (most tasks need 10,000 to 15,000, or more)"


def _build_session(
    run: Run,
    task: Any,
    env: VecEnv,
    progress: Progress,
    opened: contextlib.ExitStack,
    resume: bool,
    columns: list[str],
    ranks: Ranks,
) -> tuple[Session, list[str]]:
    """The parts, and what to tell the user of them."""
    config = run.config
    keep_freed_memory()

    def opening(part: Part) -> Part:
        opened.callback(part.close)
        return part

    # Now and not when it is first needed: what keeps it from working should be known before anything is trained.
    evaluates = intervals(config)[1] and ranks.rank == 0
    evaluator = opening(make_evaluator(task, config)) if evaluates else None
    engine = f", engine {config.env.engine}" if config.env.engine != "auto" else ""  # your own environment has none
    progress.say(f"{run.task}: {env.spec.num_envs * ranks.count:,} at a time{engine}")
    no_compiler = compiler_missing() if config.compile == "on" else None
    compiled = config.compile == "on" and no_compiler is None
    agent = _agent(run, env, progress, opened, compiled, ranks)
    for line in precision_notes(torch.device(config.device), config.precision):
        progress.say(line)
    run.write_config()
    session = Session(
        run,
        env,
        agent,
        evaluator,
        UpdateBudget(config.agent.updates_per_transition),
        EpisodeStats(env.spec.num_envs),
        EnvMetrics(env.spec),
        Clock(),
        CheckpointStore(run.path, run.task, _kept(config, ranks), run.record),
        BestPolicy(run.path, run.task),
        SimulatorWatch(config.max_invalid, progress.say),
        progress,
        opening(FolderWatch(run.path, layout.CONFIG)),
        ranks,
        compiled,
        opened,
    )
    notes = _reset_or_restore(session, resume)
    session.store.delete_unused()
    session.store.reserve = opening(Reserve(run.path, POLICY_EXTRA + tensor_bytes(session.policy().weights())))
    session.log = opening(_open_log(session, columns, resume))
    return session, [*notes, *([no_compiler] if no_compiler else [])]


def _open_log(session: Session, columns: list[str], resume: bool) -> MetricsLog:
    config = session.config
    return MetricsLog(
        session.run.path,
        columns=[*columns, *session.env_metrics.columns],
        # The row of an evaluation that is still due is written again.
        resume_step=session.step - session.evaluation_due if resume else None,
        unwritten=session.unwritten_rows,
        wandb_project=config.wandb,
        trackio_project=config.trackio,
        config=dataclasses.asdict(config),
        say=session.progress.say,
    )


def _kept(config: TrainConfig, ranks: Ranks) -> int:
    """How many checkpoints a rank keeps: the first one's newest may be one behind the others'."""
    return max(2, config.keep_checkpoints) if ranks.rank else config.keep_checkpoints


def _agent(
    run: Run, env: VecEnv, progress: Progress, opened: contextlib.ExitStack, compiled: bool, ranks: Ranks
) -> Agent:
    config, device, parent = run.config, torch.device(run.config.device), run.parent
    copied = parent.transitions if parent else 0
    opened.callback(remove_ring, run.path)
    replay = make_replay(
        env.spec,
        dataclasses.replace(config.replay, capacity=math.ceil(config.replay.capacity / ranks.count)),
        steps=math.ceil((config.steps + copied) / ranks.count),
        discount=config.agent.discount,
        n_step=config.agent.n_step,
        run_dir=run.path,
        device=device,
        say=progress.say,
    )
    learned_steps = max(0, config.steps - max(0, config.agent.warmup - copied))
    return Agent(
        env.spec,
        config.agent,
        replay,
        total_updates=int(learned_steps * config.agent.updates_per_transition),
        seed=config.seed,
        policy_collects=parent is not None and parent.policy_collects,
        device=device,
        dtype=DTYPES[config.precision],
        sync=ranks.sync,
        **({"compiler": compiler_for(device, progress.say)} if compiled else {}),
    )


def _reset_or_restore(session: Session, resume: bool) -> list[str]:
    """The first observation, or everything from the newest checkpoint, or the networks of the run's parent."""
    if resume and session.ranks.share(bool(session.store.newest))[0]:
        return restore(session)
    if session.run.parent:
        return begin_from_parent(session, session.run.parent)
    # Environments have consecutive seeds: those of all ranks are the ones that a single process would have.
    session.obs = session.env.reset(session.config.seed + session.ranks.rank * session.env.spec.num_envs)
    return ["the run was stopped before its first checkpoint: starting from the beginning"] if resume else []
