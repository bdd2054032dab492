"""Our environments, as the bridges to all libraries see them."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from flashsac.errors import BadSimulation, UnsupportedSpace
from flashsac.sims.base import VecEnv, no_exit
from flashsac.training.counters import EpisodeStats
from flashsac.training.env_metrics import EnvMetrics
from flashsac.training.health import SimulatorWatch
from flashsac.types import Obs, Step

NUMBERS_ONLY = "The baselines learn from one vector of numbers: choose a task that shows one."


class Source:
    """The environments with their newest observation, and the counts that FlashSAC's trainer keeps."""

    def __init__(self, env: VecEnv, task: str, max_invalid: float, say: Callable[[str], None]):
        if env.spec.pixels or env.spec.history:
            raise UnsupportedSpace(f"{task} shows images or a history. {NUMBERS_ONLY}")
        self.env, self.spec = env, env.spec
        self.obs: Obs = {}
        self.step_count = self.invalid = 0
        """Transitions so far, and those of them without a known outcome."""
        self.episodes, self.metrics = EpisodeStats(env.spec.num_envs), EnvMetrics(env.spec)
        self.watch = SimulatorWatch(max_invalid, say)

    def reset(self, seed: int) -> None:
        """Begin new episodes."""
        self.obs = self.env.reset(seed)
        self.restart_episodes()

    def restart_episodes(self) -> None:
        """Forget the episodes that had not ended."""
        self.episodes.restart()
        self.metrics.restart()

    def step(self, action: Tensor) -> Step:
        """One step of every environment."""
        with no_exit("training"):
            step = self.env.step(action.clamp(-1.0, 1.0).to(self.spec.device))
        self.obs = step.obs
        self.step_count += self.spec.num_envs
        self.invalid += int((~step.valid).sum())
        self.episodes.observe(step)
        self.metrics.observe(step)
        if problem := self.watch.problem(step, self.invalid):
            raise BadSimulation(
                f"{problem}. The simulation is probably unstable: check its time step, gains and action range."
            )
        return step
