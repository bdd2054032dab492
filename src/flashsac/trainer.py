"""The training loop, and what must surround it: signals, evaluation, checkpoints."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from flashsac.checkpoint import CheckpointStore
from flashsac.config import TrainConfig
from flashsac.core.agent import Agent
from flashsac.core.compiler import DTYPES, compiler_for, compiler_missing
from flashsac.counters import Clock, EpisodeStats, UpdateBudget
from flashsac.errors import BadSimulation, CheckpointError, EvaluationLost
from flashsac.evaluation import Evaluator
from flashsac.evaluation_process import ProcessEvaluator, make_evaluator
from flashsac.logging import MetricsLog, Progress, read_metrics
from flashsac.policy import Policy, make_policy
from flashsac.run import Run
from flashsac.sims.base import OverlappingVecEnv
from flashsac.sims.registry import make_env
from flashsac.storage import make_replay
from flashsac.types import Obs, Step


@dataclasses.dataclass
class Result:
    """What a training run came to."""

    run_dir: Path
    step: int
    interrupted: bool
    row: dict[str, float]
    """The last row of metrics.csv."""
    best: float
    """Return of the best evaluation."""
    video: Path | None = None


class Trainer:
    """One run, from its first step or from a checkpoint. `task` is what `make_env` takes: a name, a factory, an environment."""

    def __init__(self, run: Run, task: Any, *, resume: bool, quiet: bool = False):
        self.run, self.config, config = run, run.config, run.config
        self.task = task
        device = torch.device(config.device)
        self.progress = Progress(config.steps, quiet)
        self.env = make_env(task, config.env, device=config.device)
        spec = self.env.spec
        agent_config = config.agent
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
        problem = compiler_missing(device) if config.compile == "on" else None
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
        self._overlapping = self.env if config.env.overlap and isinstance(self.env, OverlappingVecEnv) else None
        self.evaluator: Evaluator | ProcessEvaluator | None = None
        self.budget = UpdateBudget(agent_config.updates_per_transition)
        self.episodes = EpisodeStats(spec.num_envs)
        self.store = CheckpointStore(run.path, run.task, config.keep_checkpoints)
        self.clock = Clock()
        self.step, self.best = 0, -math.inf
        self._counted_from = 0  # the step at which this process took over
        self._dropped = self._broken = (
            0  # since then: transitions without an outcome, and those of them with NaN or Inf
        )
        self.metrics: dict[str, Tensor] = {}
        self.row: dict[str, float] = {}
        self._stopped = False
        self._said: set[str] = set()

        self.obs: Obs
        notes: list[str] = []
        if resume and not self.store.empty:
            notes = self._load()
        else:
            self.obs = self.env.reset(config.seed)
            if resume:
                notes = ["the run was stopped before its first checkpoint: starting from the beginning"]
        self.log = MetricsLog(
            run.path,
            resume_step=self.step if resume else None,
            wandb_project=config.wandb,
            config=dataclasses.asdict(config),
        )
        for line in [*notes, *([problem] if problem else [])]:
            self.progress.say(line)
        self.progress.begin(self.step)
        self._compiling = compiled

    # --- the loop ------------------------------------------------------------------------------------------------------

    def train(self) -> Result:
        """Run to the end, or until told to stop; either way everything is saved."""
        handlers = self._catch_signals()
        config, num_envs = self.config, self.env.spec.num_envs
        log_every, eval_every, save_every = intervals(config)
        try:
            self.clock.start(self.step)
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
                    rate = self.clock.lap(self.step)
                    scores = self._evaluate() if evaluated else {}
                    self._write_row(rate, scores)
                    self.clock.start(self.step)  # evaluation is not training time
                self.progress.advance(self.step)
                if crossed(previous, self.step, save_every) and not last:
                    self._save(fatal=False)
                self._check_simulator(step)
            if self._stopped:
                self.progress.say("stopping: saving a checkpoint (once more to stop at once) ...")
            self._save(fatal=True)
            return Result(self.run.path, self.step, self._stopped, self.row, self.best)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            self.close()

    def stop(self) -> None:
        """End after the current step, with everything saved."""
        self._stopped = True

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
            return self.env.step(action)
        self._overlapping.send(action)
        self._learn()
        return self._overlapping.receive()

    def _announce_compiling(self) -> None:
        if self._compiling and self.agent.warm:
            self.progress.say("compiling (a minute or two the first time, seconds later) ...")
            self._compiling = False

    def _learn(self) -> None:
        self._announce_compiling()
        for _ in range(self.budget.spend()):
            self.metrics |= self.agent.update()

    def _evaluate(self) -> dict[str, float]:
        if self.evaluator is None:
            self.evaluator = make_evaluator(self.task, self.config)
        try:
            scores = self.evaluator.judge(self.policy()).summary()
        except EvaluationLost as error:
            self.progress.say(f"warning: {error}\nTraining goes on; the next evaluation will be tried again.")
            return {}
        if scores["eval_return"] > self.best:
            try:
                self.store.save_best(self.step, scores["eval_return"], self._save_policy)
                self.best = scores["eval_return"]
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
        try:
            self.log.write(row)
        except OSError as error:
            self.progress.say(f"warning: a row of metrics could not be written ({error.strerror}); training goes on")
        self.progress.row(row)

    def _check_simulator(self, step: Step) -> None:
        """What has no outcome was dropped already; say so once, and give up when there are too many NaN and Inf."""
        if self.replay.invalid == self._dropped:
            return
        self._dropped = self.replay.invalid
        # A cut-off episode without a final observation is no fault of the physics: such simulators reset before they show it.
        broken = int((~step.valid & ~step.truncated).sum())
        self._broken += broken
        self._say_once(
            "warning: the simulator returned NaN or Inf; such transitions are dropped and counted (invalid)"
            if broken
            else "note: the simulator shows no final observations; steps at which a time limit ends an episode are dropped (invalid)"
        )
        total = self.step - self._counted_from
        if self._broken <= self.config.max_invalid * max(total, 1000):
            return
        saved = self._save(fatal=False)
        raise BadSimulation(
            f"{self._broken:,} of {total:,} transitions held NaN or Inf, more than --max-invalid {self.config.max_invalid:g} allows. "
            f"They were dropped{', and a checkpoint was saved' if saved else ''}. The simulation is probably unstable: check its "
            f"time step, gains and action range; then: flashsac resume {self.run.path}"
        )

    def _say_once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self.progress.say(line)

    # --- saving and loading --------------------------------------------------------------------------------------------

    def _save(self, *, fatal: bool) -> bool:
        """True if it worked; a failure is a warning, or with `fatal` an error."""
        state = {
            "spec": self._fingerprint(),
            "agent": self.agent.state_dict(),
            "env": self.env.state_dict(),
            "obs": self.obs,
            "episodes": self.episodes.state_dict(),
            "metrics": self.metrics,
            "owed": self.budget.owed,
            "best": self.best,
            "seconds": self.clock.seconds,
        }
        try:
            self.store.save(self.step, state, self.replay, self._save_policy)
        except CheckpointError as error:
            if fatal:
                raise
            self.progress.say(f"warning: {error}\nTraining goes on and will try again.")
            return False
        return True

    def _fingerprint(self) -> dict[str, Any]:
        """What must be the same for a checkpoint to make sense here."""
        spec = self.env.spec
        images = {"pixels": list(spec.pixels.shape)} if spec.pixels else {}
        return {"obs": spec.obs, "action_dim": spec.action_dim, "num_envs": spec.num_envs} | images

    def policy(self) -> Policy:
        """As it stands now: it goes on learning with the agent."""
        learner = self.agent.learner
        return make_policy(learner.actor, learner.encoder, self.run.task, self.env.spec, self.config.agent)

    def _save_policy(self, path: Path) -> None:
        self.policy().save(path)

    def _load(self) -> list[str]:
        checkpoint, problems = self.store.load()
        notes = [f"warning: {problem}; using the one before it" for problem in problems]
        state = checkpoint.state
        if state["spec"] != self._fingerprint():
            raise CheckpointError(
                f"the checkpoint was made with {state['spec']}, but the environment now has {self._fingerprint()}. Resume with "
                "the same environment, or train anew with another --run-dir."
            )
        self.store.restore_replay(checkpoint, self.replay)
        self.agent.load_state_dict(state["agent"])
        if checkpoint.lost_until:
            self.replay.lose_before(checkpoint.lost_until)
            notes.append(
                f"warning: part of the replay is damaged and was dropped; {len(self.replay):,} transitions are left"
            )
        self.episodes.load_state_dict(state["episodes"])
        self.metrics = state["metrics"]
        self.budget.owed, self.clock.seconds = state["owed"], state["seconds"]
        self.best = max(state["best"], self.store.best_score())
        self.step = checkpoint.step
        self._counted_from, self._dropped = self.step, self.replay.invalid
        self.row = next(iter(read_metrics(self.run.path / "metrics.csv")[-1:]), {})
        notes.append(f"resuming {self.run.task} at step {self.step:,} of {self.config.steps:,}")
        if self.env.spec.can_save_state and self.env.load_state_dict(state["env"]):
            self.obs = {group: rows.to(self.env.spec.device) for group, rows in state["obs"].items()}
        else:
            # Another seed than at the start, or the same episodes would be collected again.
            self.obs = self.env.reset(self.config.seed + 7919 * (1 + self.step))
            self.agent.restart_episodes(self.obs)
            self.episodes.restart()
            self.store.save_again_from(self.replay.head - 1)
            why = "could not be brought back exactly" if self.env.spec.can_save_state else "cannot save its state"
            notes.append(f"this simulator {why}: episodes begin anew, everything else goes on")
        return notes

    # --- signals and closing -------------------------------------------------------------------------------------------

    def _catch_signals(self) -> dict[int, Any]:
        """Ctrl-C and SIGTERM end the run after the current step, with everything saved; a second one ends it at once."""

        def handle(_number: int, _frame: Any) -> None:
            if self._stopped:
                raise KeyboardInterrupt
            self.stop()

        try:
            return {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread: the caller's signals are not ours
            return {}

    def close(self) -> None:
        """Everything, whatever fails on the way."""
        with contextlib.ExitStack() as stack:
            for part in (self.run, self.env, self.evaluator, self.log, self.progress):
                if part is not None:
                    stack.callback(part.close)


def intervals(config: TrainConfig) -> tuple[int, int, int]:
    """(log, evaluate, save) in transitions."""

    def choose(value: int | None, share: int) -> int:
        return max(1, config.steps // share) if value is None else value

    return choose(config.log_every, 200), choose(config.eval.every, 20), choose(config.checkpoint_every, 10)


def crossed(previous: int, now: int, every: int) -> bool:
    """True when a multiple of `every` lies in (previous, now]."""
    return every > 0 and now // every > previous // every
