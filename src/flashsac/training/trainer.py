"""The training loop: act, simulate, remember, learn; and in between log, evaluate, save."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from flashsac.errors import BadSimulation, EvaluationAbandoned, FlashSACError
from flashsac.training.counters import crossed, intervals
from flashsac.training.hooks import Hooks, Phase
from flashsac.training.interrupts import graceful_stop
from flashsac.training.saving import Saver
from flashsac.training.session import Session
from flashsac.types import Step


@dataclasses.dataclass
class Result:
    """What a training run came to."""

    run_dir: Path
    step: int
    interrupted: bool
    row: dict[str, float] = dataclasses.field(repr=False)
    """The last row of metrics.csv."""
    best: float
    """Return of the best evaluation."""
    video: Path | None = None
    was_finished: bool = False
    """True if a resumed run had nothing left to train."""

    @property
    def exit_code(self) -> int:
        """The exit code of a command: 130 if the run was interrupted, as after Ctrl-C."""
        return 130 if self.interrupted else 0


COUNTS = ("episodes", "invalid", "reward_outliers")
"""Metrics that are sums over ranks. All others are means."""


def merged(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """The row of a run, from those of its ranks. A mean leaves out the ranks that lack the metric."""
    if len(rows) == 1:
        return rows[0]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row[name] for row in rows if name in row] for name in names}
    return {name: sum(column) / (1 if name in COUNTS else len(column)) for name, column in columns.items()}


class Trainer:
    """The loop that runs a session to its end, or until it is told to stop. Either way everything is saved."""

    METRICS: ClassVar[dict[str, str]] = {
        "step": "transitions collected so far",
        "updates": "gradient updates so far",
    }

    def __init__(self, session: Session, hooks: Sequence[Hooks] = ()):
        self.session, self.hooks = session, tuple(hooks)
        self._saver = Saver(session, self._tell_saved)
        self._overlapping = session.overlapping_env
        self._stopped, self._announce_compiling = False, session.compiled

    @property
    def step(self) -> int:
        """Transitions collected so far."""
        return self.session.step

    def close(self) -> None:
        self.session.opened.close()

    def train(self) -> Result:
        session = self.session
        config, num_envs = session.config, session.num_envs
        log_every, eval_every, save_every = intervals(config)
        with contextlib.closing(self), graceful_stop(self.stop):
            session.clock.start(session.step)
            if session.evaluation_due:
                self._write_row(evaluate=True)
            while session.step < config.steps and not session.ranks.any(self._stopped):
                step = self._iterate()
                previous, session.step = session.step, session.step + num_envs
                last = session.step >= config.steps
                if self._all_ready():
                    session.budget.earn(num_envs)
                    if last or self._overlapping is None:
                        self._learn()
                evaluated = crossed(previous, session.step, eval_every) or (last and eval_every)
                if crossed(previous, session.step, log_every) or evaluated or last:
                    self._write_row(evaluate=bool(evaluated))
                session.progress.advance(session.step)
                if crossed(previous, session.step, save_every) and not last and not self.save(fatal=False):
                    session.progress.say("Training goes on and will try again.")
                self._check_simulator(step)
            self._saver.save_last(lambda: self._stopped)
            stopped = session.ranks.any(self._stopped)
            return Result(session.run.path, session.step, stopped, session.row, session.best.score.value)

    def stop(self) -> None:
        """End after the current step, with everything saved. A running evaluation is left to the resumed run."""
        session = self.session
        self._stopped = self._saver.stopping = True
        with contextlib.suppress(RuntimeError):  # the signal may have come while something was being printed
            session.progress.say("stopping: saving a checkpoint (once more to stop at once) ...")
        if session.evaluator is not None and session.step < session.config.steps:
            session.evaluator.abandon()

    def save(self, *, fatal: bool) -> bool:
        """Write a checkpoint; True if it worked. A failure is a warning, or with `fatal` an error."""
        return self._saver.save(fatal=fatal)

    # --- one iteration ------------------------------------------------------------------------------------------------

    def _iterate(self) -> Step:
        """One step of every environment, remembered."""
        session = self.session
        for hook in self.hooks:
            hook.before_step(self)
        self._announce_compiling_once()
        action = session.agent.act(session.obs)
        self._after("acting")
        step = self._simulate(action)
        session.agent.observe(session.obs, action, step)
        session.episodes.observe(step)
        session.env_metrics.observe(step)
        session.obs = step.obs
        self._after("replay")
        return step

    def _simulate(self, action: Tensor) -> Step:
        """Simulate and learn at the same time, where the simulator has threads of its own."""
        with self._saver.on_failure("training"):
            if self._overlapping is None:
                step = self.session.env.step(action)
                self._after("simulation")
                return step
            self._overlapping.send(action)
        self._after("simulation")
        self._learn()
        with self._saver.on_failure("training"):
            step = self._overlapping.receive()
        self._after("simulation")
        return step

    def _learn(self) -> None:
        """The updates that are due."""
        session = self.session
        if not self._all_ready():
            return
        self._announce_compiling_once()
        try:
            for _ in range(session.budget.spend()):
                metrics = session.agent.update()
                session.metrics |= metrics
                for hook in self.hooks:
                    hook.after_update(self, metrics)
        except RuntimeError:  # a NaN value gives an invalid atom index: report the divergence instead
            self._saver.require_finite_networks()
            raise
        self._after("learning")

    def _all_ready(self) -> bool:
        """True if every rank can learn; one may have lost part of its replay."""
        return not self.session.ranks.any(not self.session.agent.ready_to_learn)

    def _announce_compiling_once(self) -> None:
        if self._announce_compiling and self.session.agent.ready_to_learn:
            self.session.progress.say("compiling (a minute or two the first time, seconds later) ...")
            self._announce_compiling = False

    def _after(self, phase: Phase) -> None:
        for hook in self.hooks:
            hook.after_phase(self, phase)

    def _tell_saved(self, checkpoint: Path) -> None:
        for hook in self.hooks:
            hook.after_save(self, checkpoint)

    # --- between iterations -------------------------------------------------------------------------------------------

    def _write_row(self, *, evaluate: bool) -> None:
        """A row of metrics. Where its evaluation was left to the resumed run, so is the row."""
        session = self.session
        self._saver.require_run_directory()
        rate = session.clock.lap(session.step)
        scores = self._evaluate() if evaluate and session.evaluator is not None else {}
        # The first rank evaluates. Making a row is an exchange too, so all must know whether there will be one.
        session.evaluation_due = session.ranks.share(scores is None)[0]
        self._saver.write_best()
        if not session.evaluation_due:
            session.row = merged(session.ranks.share(self._row(rate, scores or {})))
            session.log.write(session.row)
            session.progress.row(session.row)
            if session.episodes.count:
                session.watch.unreported_metrics(session.env_metrics.unreported())
            session.watch.outliers(int(session.row["reward_outliers"]))
            for hook in self.hooks:
                hook.after_row(self, session.row)
        session.clock.start(session.step)  # evaluation is not training time

    def _evaluate(self) -> dict[str, float] | None:
        """Scores of the policy; None if the run was told to stop meanwhile."""
        session = self.session
        assert session.evaluator is not None
        self._saver.require_finite_networks()
        policy = session.policy()
        session.evaluation_due = True  # should the environment fail, the resumed run makes up for it
        with self._saver.on_failure("evaluation"):
            try:
                evaluation = session.evaluator.evaluate(policy)
            except EvaluationAbandoned:
                return None
            except FlashSACError as error:
                session.progress.say(f"warning: {error}\nTraining goes on; the next evaluation will be tried again.")
                return {}
        scores = evaluation.summary()
        if evaluation.problem:
            unfit = "" if evaluation.can_be_best else ", and this policy cannot become the best"
            session.progress.say(f"warning: {evaluation.problem}{unfit}; training goes on")
        if evaluation.cut:
            session.watch.cut_episodes(evaluation.cut, evaluation.episodes)
        if evaluation.can_be_best:
            session.best.offer(session.step, scores, lambda path: self._saver.save_policy(policy, path))
        return scores

    def _row(self, rate: float, scores: dict[str, float]) -> dict[str, float]:
        session = self.session
        agent = session.agent
        row: dict[str, float] = {"step": session.step, "updates": agent.updates, **session.episodes.summary(), **scores}
        row |= {name: value.item() for name, value in session.metrics.items()}
        row |= session.env_metrics.take()
        for hook in self.hooks:
            row |= hook.row_metrics(self)
        return row | {
            "reward_scale": agent.reward_scale.scale().item(),
            "reward_outliers": agent.reward_scale.outliers(),
            "learning_rate": agent.learning_rate(),
            "invalid": agent.replay.invalid,
            "seconds": session.clock.seconds,
            "steps_per_second": rate,
        }

    def _check_simulator(self, step: Step) -> None:
        problem = self.session.watch.problem(step, self.session.agent.replay.invalid)
        if problem is None:
            return
        saved = self._saver.save_alone()
        raise BadSimulation(
            f"{problem}. They were dropped{', and a checkpoint was saved' if saved else ''}. The simulation is probably unstable: "
            f"check its time step, gains and action range; then: flashsac resume {self.session.run.path}"
        )
