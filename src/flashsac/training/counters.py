"""Counters of a run: updates due, seconds spent, episodes finished, what happens every so many steps."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import ClassVar

import torch
from torch import Tensor

from flashsac.config.schema import TrainConfig
from flashsac.types import Step


class UpdateBudget:
    """How many updates are due: counts transitions, so the number of environments does not matter."""

    def __init__(self, updates_per_transition: float):
        self.rate, self.owed = updates_per_transition, 0.0

    def earn(self, transitions: int) -> None:
        self.owed += self.rate * transitions

    def spend(self) -> int:
        """The whole updates that are due now."""
        count = math.floor(self.owed + 1e-9)
        self.owed -= count
        return count


class Clock:
    """Seconds spent training, over all the processes that a run may have had."""

    METRICS: ClassVar[dict[str, str]] = {
        "seconds": "training time so far, evaluations not counted",
        "steps_per_second": "transitions per second since the last row",
    }

    def __init__(self) -> None:
        self.seconds, self._step, self._since = 0.0, 0, 0.0

    def start(self, step: int) -> None:
        self._step, self._since = step, time.monotonic()

    @property
    def now(self) -> float:
        """The seconds so far, those since `start` included."""
        return self.seconds + time.monotonic() - self._since

    def lap(self, step: int) -> float:
        """Count the time since `start`; returns transitions per second."""
        passed = time.monotonic() - self._since
        self.seconds += passed
        return (step - self._step) / max(passed, 1e-9)


class EpisodeStats:
    """Returns and lengths of the latest training episodes."""

    METRICS: ClassVar[dict[str, str]] = {
        "episodes": "training episodes finished so far",
        "return": "mean return of the latest training episodes",
        "length": "mean length of the latest training episodes, in steps",
    }

    def __init__(self, num_envs: int):
        self.returns, self.lengths = torch.zeros(num_envs), torch.zeros(num_envs)
        # At least one episode of each environment: a thousand robots that end together must not be judged by the last
        # hundred of them.
        self.finished: deque[tuple[float, float]] = deque(maxlen=max(100, num_envs))
        self.count = 0

    def observe(self, step: Step) -> None:
        self.returns += torch.where(step.valid, step.reward, 0.0).cpu()
        self.lengths += 1
        over = (step.terminated | step.truncated | ~step.valid).cpu()
        if over.any():
            ended = over.nonzero()[:, 0]
            self.finished.extend(zip(self.returns[ended].tolist(), self.lengths[ended].tolist(), strict=True))
            self.count += len(ended)
            self.restart(over)

    def restart(self, where: Tensor | slice = slice(None)) -> None:
        self.returns[where] = 0.0
        self.lengths[where] = 0.0

    def summary(self) -> dict[str, float]:
        out: dict[str, float] = {"episodes": self.count}
        if self.finished:
            returns, lengths = zip(*self.finished, strict=True)
            out |= {"return": sum(returns) / len(returns), "length": sum(lengths) / len(lengths)}
        return out

    def state_dict(self) -> dict:
        return {
            "returns": self.returns,
            "lengths": self.lengths,
            "finished": [list(pair) for pair in self.finished],
            "count": self.count,
        }

    def load_state_dict(self, state: dict) -> None:
        self.returns, self.lengths = state["returns"].clone(), state["lengths"].clone()
        self.finished.extend((pair[0], pair[1]) for pair in state["finished"])
        self.count = state["count"]


def intervals(config: TrainConfig) -> tuple[int, int, int]:
    """(log, evaluate, save) in transitions."""

    def choose(value: int | None, share: int) -> int:
        return max(1, config.steps // share) if value is None else value

    return choose(config.log_every, 200), choose(config.eval.every, 20), choose(config.checkpoint_every, 10)


def crossed(previous: float, now: float, every: float) -> bool:
    """True when a multiple of `every` lies in (previous, now]."""
    return every > 0 and now // every > previous // every
