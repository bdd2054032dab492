"""Everything that one training run consists of, and where it stands."""

from __future__ import annotations

import contextlib
import dataclasses

from torch import Tensor

from flashsac.config.schema import TrainConfig
from flashsac.core.agent import Agent
from flashsac.policies.evaluation import Evaluator
from flashsac.policies.evaluation_process import ProcessEvaluator
from flashsac.policies.policy import Policy, snapshot
from flashsac.runs.best import BestPolicy
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.directory import Run
from flashsac.runs.disk import FolderWatch
from flashsac.runs.metrics import MetricsLog
from flashsac.sims.base import OverlappingVecEnv, VecEnv
from flashsac.training.counters import Clock, EpisodeStats, UpdateBudget
from flashsac.training.env_metrics import EnvMetrics
from flashsac.training.health import SimulatorWatch
from flashsac.training.progress import Progress
from flashsac.training.ranks import Ranks
from flashsac.types import Obs


@dataclasses.dataclass
class Session:
    """The parts of a run; `build.py` makes them. The fields after `log` change from step to step."""

    run: Run
    env: VecEnv
    agent: Agent
    evaluator: Evaluator | ProcessEvaluator | None
    """None where nothing is evaluated; of several ranks, the first one evaluates."""
    budget: UpdateBudget
    episodes: EpisodeStats
    env_metrics: EnvMetrics
    clock: Clock
    store: CheckpointStore
    best: BestPolicy
    watch: SimulatorWatch
    progress: Progress
    folder: FolderWatch
    ranks: Ranks
    compiled: bool
    opened: contextlib.ExitStack
    """Close every part, whatever fails on the way."""

    log: MetricsLog = dataclasses.field(init=False)
    """Opened last: it drops the rows that came after the checkpoint a run goes on from."""
    obs: Obs = dataclasses.field(default_factory=dict)
    """What to act on next."""
    step: int = 0
    """Transitions collected so far."""
    metrics: dict[str, Tensor] = dataclasses.field(default_factory=dict)
    """The newest of every kind; still on the device."""
    row: dict[str, float] = dataclasses.field(default_factory=dict)
    """The last row of metrics.csv."""
    evaluation_due: bool = False
    """True if an evaluation was left to the resumed run."""
    unwritten_rows: list[dict[str, float]] = dataclasses.field(default_factory=list)
    """Rows that the checkpoint holds, because there was no room for them in metrics.csv."""

    @property
    def config(self) -> TrainConfig:
        return self.run.config

    @property
    def num_envs(self) -> int:
        """The environments of all ranks."""
        return self.env.spec.num_envs * self.ranks.count

    @property
    def overlapping_env(self) -> OverlappingVecEnv | None:
        """The environment, if it simulates while the agent learns."""
        return self.env if self.config.env.overlap and isinstance(self.env, OverlappingVecEnv) else None

    def policy(self) -> Policy:
        """A copy of the policy as it stands now. The copy that is evaluated is the one that is saved."""
        learner = self.agent.learner
        return snapshot(learner.actor, learner.encoder, self.run.task, self.env.spec, self.config)
