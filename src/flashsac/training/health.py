"""A watch on the simulator: the replay drops transitions without an outcome, but not in silence, nor for ever."""

from __future__ import annotations

from collections.abc import Callable

from flashsac.core.reward_scale import JumpGuard
from flashsac.policies.evaluation import MAX_STEPS
from flashsac.types import MAX_REWARD, Step

AT_LEAST = 1000
"""Transitions that the share of broken ones is taken of, so that a bad first step does not end a run."""


class SimulatorWatch:
    """The watch of one process: what was dropped before it began is not its business."""

    def __init__(self, max_invalid: float, say: Callable[[str], None]):
        self.max_invalid, self._say = max_invalid, say
        self._said: set[str] = set()
        self._dropped = self._broken = self._watched = 0
        """Transitions that the replay dropped, ever; those with NaN or Inf, since we watch; all transitions since
        then."""
        self._outliers = 0
        """Jumps of the reward so far, ever."""

    def begin(self, dropped: int, outliers: int) -> None:
        self._dropped, self._outliers = dropped, outliers

    def problem(self, step: Step, dropped: int) -> str | None:
        """What is wrong once there are too many NaN and Inf; `dropped` is the replay's count."""
        self._watched += len(step.valid)
        if dropped == self._dropped:
            return None
        self._dropped = dropped
        # A cut-off episode without a final observation is no fault of the physics: such simulators reset before they
        # show it.
        broken = int(step.broken().sum())
        self._broken += broken
        self._say_once(
            f"warning: the simulator returned NaN, Inf or a reward beyond {MAX_REWARD:g}; such transitions are dropped and counted "
            "(invalid)"
            if broken
            else "note: the simulator shows no final observations; steps at which a time limit ends an episode are dropped (invalid)"
        )
        if self._broken <= self.max_invalid * max(self._watched, AT_LEAST):
            return None
        share = f"{self._broken:,} of {self._watched:,} transitions"
        return f"{share} held NaN or Inf, more than --max-invalid {self.max_invalid:g} allows"

    def outliers(self, count: int) -> None:
        """Say that the reward jumped; `count` is the agent's."""
        if count > self._outliers:
            self._say_once(
                f"warning: a reward exceeded {JumpGuard.FACTOR:g} times the largest return so far. The reward scale follows such a "
                "jump only after a second one confirms it; the others are counted (reward_outliers). Check the environment's reward, "
                "or turn this off with --agent.no-reward-guard"
            )
        self._outliers = count

    def cut_episodes(self, cut: int, episodes: int) -> None:
        """Say that evaluation had to end episodes itself."""
        self._say_once(
            f"note: {cut} of {episodes} evaluation episodes were cut after {MAX_STEPS:,} steps. "
            "To set a time limit, for training too: env.max_episode_steps (--env.max-episode-steps N)",
            kind="cut",
        )

    def unreported_metrics(self, names: list[str]) -> None:
        """Say which metrics the environment declares, but does not report."""
        if names:
            self._say_once(
                f"note: the environment declares the metrics {', '.join(names)}, but no step has reported them yet. Its step() must "
                "put each into info under that name, as a number",
                kind="metrics",
            )

    def _say_once(self, line: str, kind: str | None = None) -> None:
        """Say a line, unless it or another of its kind was said before."""
        if (kind or line) not in self._said:
            self._said.add(kind or line)
            self._say(line)
