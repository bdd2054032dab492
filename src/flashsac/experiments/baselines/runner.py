"""The run of a baseline: the loop, rows, evaluations and checkpoints, by FlashSAC's clock and in its files."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import numpy as np

from flashsac.errors import CheckpointError, EvaluationAbandoned, FlashSACError
from flashsac.experiments.baselines import checkpoint
from flashsac.experiments.baselines.algorithms import Learner, learner_class
from flashsac.experiments.baselines.plan import Plan
from flashsac.experiments.baselines.source import Source
from flashsac.policies.evaluation import Evaluation, Evaluator
from flashsac.policies.evaluation_process import EVAL_SEED
from flashsac.runs.directory import Run
from flashsac.runs.metrics import MetricsLog
from flashsac.runs.seal import MALFORMED
from flashsac.sims.base import no_exit
from flashsac.sims.make import make_env
from flashsac.training.counters import Clock, EpisodeStats, crossed, intervals
from flashsac.training.interrupts import graceful_stop
from flashsac.training.progress import Progress
from flashsac.training.start import with_environment_facts

COLUMNS = ("step", "updates", *EpisodeStats.METRICS, *Evaluation.METRICS, "invalid", *Clock.METRICS)
"""The columns of metrics.csv: those of a FlashSAC run that every algorithm has."""
ROWS, EVALUATIONS, CHECKPOINTS = 200, 20, 10
"""How many there are in a run of given minutes; `intervals` has as many for one of given steps."""


class Schedule:
    """The end of the run, and the moments of its rows, evaluations and checkpoints."""

    def __init__(self, plan: Plan):
        log, evaluate, save = (float(every) for every in intervals(plan.config))
        self.seconds = None if plan.minutes is None else 60 * plan.minutes
        self.steps, by_step = plan.config.steps, plan.config.eval.every is not None
        if self.seconds is not None:
            log, save = self.seconds / ROWS, self.seconds / CHECKPOINTS
            evaluate = evaluate if by_step else self.seconds / EVALUATIONS
        self._log, self._evaluate, self._save = log, evaluate, save
        self._evaluate_by_step = by_step or self.seconds is None

    @property
    def evaluates(self) -> bool:
        return self._evaluate > 0

    def over(self, step: int, seconds: float) -> bool:
        return step >= self.steps if self.seconds is None else seconds >= self.seconds

    def due(self, before: tuple[int, float], now: tuple[int, float]) -> tuple[bool, bool, bool]:
        """A row, an evaluation, a checkpoint; `before` and `now` are steps and seconds."""
        axis, last = 0 if self.seconds is None else 1, self.over(*now)
        place = 0 if self._evaluate_by_step else 1
        evaluate = crossed(before[place], now[place], self._evaluate) or (last and self.evaluates)
        log = crossed(before[axis], now[axis], self._log) or evaluate or last
        return log, evaluate, crossed(before[axis], now[axis], self._save) or last

    def expected_steps(self, step: int, seconds: float) -> int:
        """The step at which the run will end, at its pace so far."""
        return self.steps if self.seconds is None else max(step, round(step * self.seconds / max(seconds, 1e-9)))


class BaselineRun:
    """A baseline's run, from its start or its last checkpoint to its end, or until it is told to stop."""

    def __init__(self, plan: Plan, run: Run, progress: Progress, *, resume: bool):
        self.run, self.progress, self._stopped = run, progress, False
        self._opened = contextlib.ExitStack()
        try:
            self._build(plan, resume)
        except BaseException:
            self._opened.close()
            raise

    def _build(self, plan: Plan, resume: bool) -> None:
        run, say, task = self.run, self.progress.say, plan.task
        self._opened.callback(self.progress.close)
        with no_exit("its start"):
            env = make_env(task, plan.config.env, device=plan.config.device)
            self._opened.callback(env.close)
            config, notes = with_environment_facts(task, plan.config, env.spec)
            self.plan = plan = dataclasses.replace(plan, config=config)
            self.source = Source(env, task, config.max_invalid, say)
            self.schedule, self.clock, self.evaluation_due = Schedule(plan), Clock(), False
            self.evaluator: Evaluator | None = None
            if self.schedule.evaluates:
                episodes, first = config.eval.episodes, config.seed + EVAL_SEED
                self.evaluator = Evaluator(task, config.env, episodes, first, device=config.device)
                self._opened.callback(self.evaluator.close)
            saved = checkpoint.load(run.path, task, run.record) if resume else None
            seed = config.seed if saved is None else _fresh_seed(config.seed, saved[0])
            self.source.reset(seed)
        self.learner = make_learner(plan, self.source, seed)
        if saved is not None:
            self._restore(*saved)
        run.record = plan.record() | run.record
        run.write_config()
        columns = [*COLUMNS, *self.source.metrics.columns]
        resume_step = self.source.step_count - self.evaluation_due if resume else None
        self.log = MetricsLog(run.path, columns=columns, resume_step=resume_step, say=say)
        self._opened.callback(self.log.close)
        for line in (*run.notes, *notes, *_begins(plan, self.source, resume)):
            say(line)

    def train(self) -> bool:
        """Train; True if the run was told to stop before its end. Either way everything is saved."""
        clock, source, schedule = self.clock, self.source, self.schedule
        with self._opened, graceful_stop(self.stop):
            self.progress.begin(source.step_count, clock.seconds)
            clock.start(source.step_count)
            if self.evaluation_due:
                self._write_row(evaluate=True)
            now = source.step_count, clock.now
            while not self._stopped and not schedule.over(*now):
                before = now
                self.learner.advance()
                now = source.step_count, clock.now
                log, evaluate, save = schedule.due(before, now)
                if log:
                    self._write_row(evaluate=evaluate)
                self.progress.advance(source.step_count)
                if save and not self._stopped and not schedule.over(*now):
                    self._save(fatal=False)
            self._save(fatal=True)
            return self._stopped

    def stop(self) -> None:
        """End after the current iteration, with everything saved. A running evaluation is left to the resumed run."""
        self._stopped = True
        with contextlib.suppress(RuntimeError):  # the signal may have come while something was being printed
            self.progress.say("stopping: saving a checkpoint (once more to stop at once) ...")
        if self.evaluator is not None:
            self.evaluator.abandon()

    def _write_row(self, *, evaluate: bool) -> None:
        source, clock = self.source, self.clock
        rate = clock.lap(source.step_count)
        scores = self._evaluate() if evaluate else {}
        self.evaluation_due = scores is None
        if scores is not None:
            row = {"step": source.step_count, "updates": self.learner.updates, **source.episodes.summary(), **scores}
            row |= source.metrics.take()
            row |= {"invalid": source.invalid, "seconds": clock.seconds, "steps_per_second": rate}
            self.log.write(row)
            if self.schedule.seconds is not None:
                self.progress.expect(self.schedule.expected_steps(source.step_count, clock.seconds))
            self.progress.row(row)
        clock.start(source.step_count)  # evaluation is not training time

    def _evaluate(self) -> dict[str, float] | None:
        """Scores of the policy; None if the run was told to stop meanwhile."""
        assert self.evaluator is not None
        try:
            with no_exit("evaluation"):
                evaluation = self.evaluator.evaluate(self.learner)
        except EvaluationAbandoned:
            return None
        if evaluation.problem:
            self.progress.say(f"warning: {evaluation.problem}; training goes on")
        if evaluation.cut:
            self.source.watch.cut_episodes(evaluation.cut, evaluation.episodes)
        return evaluation.summary()

    def _save(self, *, fatal: bool) -> None:
        """Write a checkpoint. A failure is a warning, or with `fatal` an error."""
        source, seconds = self.source, self.clock.now
        self.log.sync()
        state = {
            "learner": self.learner.state_dict(),
            "episodes": source.episodes.state_dict(),
            "env_metrics": source.metrics.state_dict(),
            "invalid": source.invalid,
            "seconds": seconds,
            "evaluation_due": self.evaluation_due,
        }
        try:
            checkpoint.save(self.run.path, self.plan.task, self.run.record, source.step_count, state)
        except OSError as error:
            if fatal:
                raise
            self.progress.say(f"warning: no checkpoint could be written ({error.strerror or error}); training goes on")

    def _restore(self, step: int, state: dict[str, Any]) -> None:
        source = self.source
        try:
            self.learner.load_state_dict(state["learner"])
            source.episodes.load_state_dict(state["episodes"])
            source.metrics.load_state_dict(state["env_metrics"])
            source.restart_episodes()  # the simulator has begun new ones
            source.step_count, source.invalid = step, state["invalid"]
            source.watch.begin(source.invalid, 0)
            self.clock.seconds, self.evaluation_due = float(state["seconds"]), bool(state["evaluation_due"])
        except MALFORMED as error:
            raise CheckpointError(
                f"the checkpoint of step {step:,} does not fit this run ({type(error).__name__}: {error!s:.200}). Begin "
                "the baseline again, with another --run-dir."
            ) from error


def make_learner(plan: Plan, source: Source, seed: int) -> Learner:
    """The plan's algorithm on these environments."""
    algorithm = plan.algorithm
    try:
        return learner_class(algorithm)(source, algorithm.kind, plan.hyperparameters, seed, plan.config.device)
    except (ValueError, TypeError, AssertionError, LookupError) as error:
        raise FlashSACError(
            f"{algorithm.packages[0]} refuses these hyperparameters ({type(error).__name__}: {error!s:.200}). "
            "Change what --set says."
        ) from error


def _fresh_seed(seed: int, step: int) -> int:
    """Another seed than at the start, or a resumed run would repeat its first episodes and its noise."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0]) % 2**31


def _begins(plan: Plan, source: Source, resume: bool) -> list[str]:
    """What a run says first."""
    name = f"{plan.algorithm.name} ({plan.algorithm.packages[0]})"
    lines = [f"{plan.task}: {source.spec.num_envs:,} at a time, trained by {name} on {plan.config.device}"]
    if resume and source.step_count:
        lines.append(
            f"resuming at step {source.step_count:,}. Episodes and random numbers begin anew, so this is not exactly the run that "
            "was never stopped"
        )
    elif resume:
        lines.append("the run was stopped before its first checkpoint: starting from the beginning")
    return lines
