"""The training loop, and what must surround it: signals, evaluation, checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from flashsac.core.agent import Agent
from flashsac.errors import BadSimulation, CheckpointError, Diverged, EvaluationAbandoned, FlashSACError
from flashsac.policies.evaluation_process import make_evaluator
from flashsac.policies.policy import Policy, snapshot
from flashsac.runs.best import BestPolicy
from flashsac.runs.checkpoint import CheckpointStore, check_same, fingerprint
from flashsac.runs.directory import Result, Run
from flashsac.runs.metrics import MetricsLog, read_metrics
from flashsac.sims.base import OverlappingVecEnv
from flashsac.sims.registry import make_env
from flashsac.system.memory import keep_freed_memory
from flashsac.training.compile import compiler_for, compiler_missing
from flashsac.training.counters import Clock, EpisodeStats, UpdateBudget, crossed, intervals
from flashsac.training.health import SimulatorWatch
from flashsac.training.interrupts import caught
from flashsac.training.precision import DTYPES, precision_notes
from flashsac.training.progress import COLUMNS, Progress
from flashsac.training.replay_storage import make_replay, remove_ring
from flashsac.types import Obs, Step


class Closable(Protocol):
    def close(self) -> Any: ...


Part = TypeVar("Part", bound=Closable)


class Trainer:
    """One run, from its first step or from a checkpoint. `task` is what `make_env` takes: a name, a factory, an environment."""

    def __init__(self, run: Run, task: Any, *, resume: bool, quiet: bool = False):
        self.run, self.config = run, run.config
        self._opened = contextlib.ExitStack()
        """Closes everything, whatever fails on the way."""
        try:
            self._begin(task, resume, quiet)
        except BaseException:
            self.close()
            raise

    def _begin(self, task: Any, resume: bool, quiet: bool) -> None:
        run, config = self._open(self.run), self.config
        device = torch.device(config.device)
        keep_freed_memory()
        self.progress = self._open(Progress(config.steps, quiet))
        self.env = self._open(make_env(task, config.env, device=config.device))
        # Now and not when it is first needed: what keeps it from working should be known before anything is trained.
        self.evaluator = self._open(make_evaluator(task, config)) if intervals(config)[1] else None
        spec, agent_config = self.env.spec, config.agent
        self.progress.say(f"{run.task}: {spec.num_envs:,} at a time, engine {config.env.engine}")
        self._opened.callback(remove_ring, run.path)
        self.replay = make_replay(
            spec,
            config.replay,
            steps=config.steps,
            discount=agent_config.discount,
            n_step=agent_config.n_step,
            run_dir=run.path,
            device=device,
            say=self.progress.say,
        )
        problem = compiler_missing() if config.compile == "on" else None
        compiled = config.compile == "on" and problem is None
        learned_steps = max(0, config.steps - agent_config.warmup)
        self.agent = Agent(
            spec,
            agent_config,
            self.replay,
            total_updates=int(learned_steps * agent_config.updates_per_transition),
            seed=config.seed,
            device=device,
            dtype=DTYPES[config.precision],
            **({"compiler": compiler_for(device)} if compiled else {}),
        )
        for line in precision_notes(device, config.precision):
            self.progress.say(line)
        self._overlapping = self.env if config.env.overlap and isinstance(self.env, OverlappingVecEnv) else None
        self.budget = UpdateBudget(agent_config.updates_per_transition)
        self.episodes = EpisodeStats(spec.num_envs)
        self.store = CheckpointStore(run.path, run.task, config.keep_checkpoints)
        self.clock = Clock()
        self.best = BestPolicy(run.path, run.task)
        self.step = 0
        self._watch = SimulatorWatch(config.max_invalid, self.progress.say)
        self.metrics: dict[str, Tensor] = {}
        self.row: dict[str, float] = {}
        self._stopped = self._evaluation_due = False

        self.obs: Obs
        notes: list[str] = []
        if resume and self.store.newest:
            notes = self._load()
        else:
            self.obs = self.env.reset(config.seed)
            if resume:
                notes = ["the run was stopped before its first checkpoint: starting from the beginning"]
        self.log = self._open(
            MetricsLog(
                run.path,
                columns=COLUMNS,
                resume_step=self.step if resume else None,
                wandb_project=config.wandb,
                config=dataclasses.asdict(config),
                say=self.progress.say,
            )
        )
        for line in [*notes, *([problem] if problem else [])]:
            self.progress.say(line)
        self.progress.begin(self.step)
        self._compiling = compiled

    def _open(self, part: Part) -> Part:
        self._opened.callback(part.close)
        return part

    def close(self) -> None:
        self._opened.close()

    # --- the loop ------------------------------------------------------------------------------------------------------

    def train(self) -> Result:
        """Run to the end, or until told to stop; either way everything is saved."""
        config, num_envs = self.config, self.env.spec.num_envs
        log_every, eval_every, save_every = intervals(config)
        with contextlib.closing(self), caught(self.stop):
            self.clock.start(self.step)
            if self._evaluation_due:
                self._measure(evaluate=True)
            while self.step < config.steps and not self._stopped:
                action = self._act()
                step = self._simulate(action)
                self.agent.observe(self.obs, action, step)
                self.episodes.observe(step)
                self.obs = step.obs
                previous, self.step = self.step, self.step + num_envs
                last = self.step >= config.steps
                if self.agent.warm:
                    self.budget.earn(num_envs)
                    if last or self._overlapping is None:
                        self._learn()

                evaluated = crossed(previous, self.step, eval_every) or (last and eval_every)
                if crossed(previous, self.step, log_every) or evaluated or last:
                    self._measure(evaluate=bool(evaluated))
                self.progress.advance(self.step)
                if crossed(previous, self.step, save_every) and not last and not self._save(fatal=False):
                    self.progress.say("Training goes on and will try again.")
                self._check_simulator(step)
            self._save(fatal=True)
            return Result(self.run.path, self.step, self._stopped, self.row, self.best.score.value)

    def stop(self) -> None:
        """End after the current step, with everything saved; an evaluation that is running is left to the resumed run."""
        self._stopped = True
        with contextlib.suppress(RuntimeError):  # the signal may have come while something was being printed
            self.progress.say("stopping: saving a checkpoint (once more to stop at once) ...")
        if self.evaluator is not None and self.step < self.config.steps:
            self.evaluator.abandon()

    @property
    def overlaps(self) -> bool:
        """True if the simulator steps while we learn."""
        return self._overlapping is not None

    def _act(self) -> Tensor:
        self._announce_compiling()
        return self.agent.act(self.obs)

    def _simulate(self, action: Tensor) -> Step:
        """One step of every environment; where the simulator has threads of its own, we learn meanwhile."""
        if self._overlapping is None:
            with self._saved_on_failure():
                return self.env.step(action)
        with self._saved_on_failure():
            self._overlapping.send(action)
        self._learn()
        with self._saved_on_failure():
            return self._overlapping.receive()

    def _announce_compiling(self) -> None:
        if self._compiling and self.agent.warm:
            self.progress.say("compiling (a minute or two the first time, seconds later) ...")
            self._compiling = False

    def _learn(self) -> None:
        if not self.agent.warm:
            return
        self._announce_compiling()
        try:
            for _ in range(due := self.budget.spend()):
                self.metrics |= self.agent.update()
        except RuntimeError:  # where NaN stands for a place among the atoms, there is no such place
            self._check_networks()
            raise
        if due:
            self.progress.learning(self.step)

    def _measure(self, *, evaluate: bool) -> None:
        """A row of metrics; where its evaluation was left for later, later."""
        rate = self.clock.lap(self.step)
        scores = self._evaluate() if evaluate else {}
        self._evaluation_due = scores is None
        if scores is not None:
            self._write_row(rate, scores)
        self.clock.start(self.step)  # evaluation is not training time

    def _evaluate(self) -> dict[str, float] | None:
        """None if we were told to stop."""
        assert self.evaluator is not None
        policy = self.policy()
        with self._saved_on_failure():
            try:
                scores = self.evaluator.evaluate(policy).summary()
            except EvaluationAbandoned:
                return None
            except FlashSACError as error:
                self.progress.say(f"warning: {error}\nTraining goes on; the next evaluation will be tried again.")
                return {}
        try:
            self.best.offer(self.step, scores, lambda path: self._save_policy(policy, path))
        except OSError as error:
            self.progress.say(
                f"warning: the best policy so far could not be written ({error.strerror}); training goes on"
            )
        return scores

    def _write_row(self, rate: float, scores: dict[str, float]) -> None:
        row: dict[str, float] = {"step": self.step, "updates": self.agent.updates, **self.episodes.summary(), **scores}
        row |= {name: value.item() for name, value in self.metrics.items()}
        row |= {
            "reward_scale": self.agent.reward_scale.scale().item(),
            "learning_rate": self.agent.learning_rate(),
            "invalid": self.replay.invalid,
            "seconds": self.clock.seconds,
            "steps_per_second": rate,
        }
        self.row = row
        self.log.write(row)
        self.progress.row(row)

    def _check_simulator(self, step: Step) -> None:
        problem = self._watch.problem(step, self.replay.invalid)
        if problem is None:
            return
        saved = self._save(fatal=False)
        raise BadSimulation(
            f"{problem}. They were dropped{', and a checkpoint was saved' if saved else ''}. The simulation is probably unstable: "
            f"check its time step, gains and action range; then: flashsac resume {self.run.path}"
        )

    def _check_networks(self) -> None:
        """Before a save, which would push out a checkpoint that is still good, and not at every step: it waits for the device."""
        if self.agent.learner.finite():
            return
        newest = self.store.newest
        left = (
            f"{newest.name} is whole: flashsac resume {self.run.path} goes on from it"
            if newest
            else "None was saved before"
        )
        raise Diverged(
            f"the networks hold NaN or Inf at step {self.step:,}, so no checkpoint of it is written. {left}. If that does not help: "
            "train anew with a lower --agent.learning-rate, or --precision fp32."
        )

    # --- saving and loading --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _saved_on_failure(self) -> Iterator[None]:
        """Whatever a simulator throws, what was learned until then is kept; its own state is not to be trusted any more."""
        try:
            yield
        except Exception:
            if self.step:
                self._save(fatal=False, with_env=False)
            raise

    def _save(self, *, fatal: bool, with_env: bool = True) -> bool:
        """True if it worked; a failure is a warning, or with `fatal` an error."""
        self._check_networks()
        state = {
            "spec": fingerprint(self.env.spec),
            "agent": self.agent.state_dict(),
            "env": self.env.state_dict() if with_env else None,
            "obs": self.obs,
            "episodes": self.episodes.state_dict(),
            "metrics": self.metrics,
            "owed": self.budget.owed,
            "best": self.best.score,
            "seconds": self.clock.seconds,
            "evaluation_due": self._evaluation_due,
        }
        try:
            self.store.save(self.step, state, self.replay, self.policy().save)
        except CheckpointError as error:
            if fatal:
                raise
            self.progress.say(f"warning: {error}")
            return False
        return True

    def policy(self) -> Policy:
        """A copy of the policy as it is now. The copy that is evaluated is the one that is saved."""
        learner = self.agent.learner
        return snapshot(learner.actor, learner.encoder, self.run.task, self.env.spec, self.config)

    def _save_policy(self, policy: Policy, path: Path) -> None:
        self._check_networks()  # an episode that NaN ends at once may well have the best return of all
        policy.save(path)

    def _load(self) -> list[str]:
        checkpoint, problems = self.store.load()
        notes = [f"warning: {problem}" for problem in problems]
        state = checkpoint.state
        check_same(state["spec"], self.env.spec)
        self.store.restore_replay(checkpoint, self.replay)
        self.agent.load_state_dict(state["agent"])
        self.budget.owed, self.clock.seconds = state["owed"], state["seconds"]
        if checkpoint.lost_until:
            self.replay.lose_before(checkpoint.lost_until)
            self.budget.owed = 0.0  # for transitions that are gone
            again = "" if self.agent.warm else f"; learning goes on when there are {self.config.agent.warmup:,} again"
            notes.append(
                f"warning: part of the replay is damaged and was dropped; {len(self.replay):,} transitions are left{again}"
            )
        self.episodes.load_state_dict(state["episodes"])
        self.metrics = state["metrics"]
        self.best.restore(state["best"])
        self.step, self._evaluation_due = checkpoint.step, state.get("evaluation_due", False)
        self._watch.begin(self.replay.invalid)
        self.row = next(iter(read_metrics(self.run.path / "metrics.csv")[-1:]), {})
        notes.append(f"resuming {self.run.task} at step {self.step:,} of {self.config.steps:,}")
        saved_env = state["env"]
        if saved_env and self.env.load_state_dict(saved_env):
            self.obs = {group: rows.to(self.env.spec.device) for group, rows in state["obs"].items()}
        else:
            # Another seed than at the start, or the same episodes would be collected again.
            seed = np.random.SeedSequence([self.config.seed, self.step]).generate_state(1)[0]
            self.obs = self.env.reset(int(seed) % 2**31)
            self.agent.restart_episodes(self.obs)
            self.episodes.restart()
            self.store.save_again_from(self.replay.head - 1)
            why = "could not be brought back exactly" if self.env.spec.can_save_state else "cannot save its state"
            notes.append(f"this simulator {why}: episodes begin anew, everything else goes on")
        return notes
