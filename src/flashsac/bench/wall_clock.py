"""The wall-clock time of a real run, by part: simulation, acting, replay, update."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import torch
from torch import Tensor

from flashsac.bench.figures import Row
from flashsac.config.schema import PresetName
from flashsac.core.replay import Replay
from flashsac.sims.defaults import configure
from flashsac.training.hooks import Hooks, Phase
from flashsac.training.start import new_run
from flashsac.training.trainer import Trainer
from flashsac.types import Batch

SETTLED = 20
"""Number of updates after which everything is compiled."""


def wall_clock(
    task: str, preset: PresetName, seconds: float, *, precision: str, overlap: bool = True, compiled: bool = True
) -> list[Row]:
    """Shares of the time, measured over `seconds` of training.

    With `overlap`, the agent learns during simulation, and simulation's share is only the time spent waiting for it."""
    with tempfile.TemporaryDirectory() as folder:
        config = configure(
            task,
            preset,
            steps=10**9,  # more than anybody measures
            log_every=5000,
            agent={"warmup": 1000},
            env={"overlap": overlap},
            replay={"capacity": 20_000 if preset == "vision" else 100_000},
            eval={"every": 0},
            checkpoint_every=0,
            precision=precision,
            compile="on" if compiled else "off",
            run_dir=f"{folder}/run",
            video=False,
        )
        stopwatch = Stopwatch(seconds)
        trainer = new_run(task, config, quiet=True, hooks=[stopwatch])
        stopwatch.watch_sampling(trainer.session.agent.replay)
        trainer.train()
    if not stopwatch.ended:
        raise KeyboardInterrupt  # Ctrl-C made the trainer end this run; the user meant the whole benchmark
    case = f"{task} {trainer.session.config.precision}{'' if overlap else ', no overlap'}"
    rows = [Row("loop", case, name, 100 * share, "%") for name, share in stopwatch.shares().items()]
    return [*rows, Row("loop", case, "end to end", stopwatch.transitions_per_second(), "transitions/s")]


class Stopwatch(Hooks):
    """A hook that times a run from its twentieth update on, and stops it when `seconds` have passed."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.spent: dict[str, float] = dict.fromkeys(("simulation", "replay", "update", "acting"), 0.0)
        self.began: tuple[float, int] | None = None
        self.ended: tuple[float, int] | None = None
        self.updates = 0
        """Updates that were timed."""
        self._mark, self._sampling = 0.0, 0.0

    def watch_sampling(self, replay: Replay) -> None:
        """Time the drawing of batches: it happens during learning, but counts as work of the replay."""
        sample = replay.sample

        def timed(*args: Any) -> Batch:
            start = _now()
            batch = sample(*args)
            self._sampling += _now() - start
            return batch

        replay.sample = timed  # type: ignore[assignment,method-assign]

    def before_step(self, trainer: Trainer) -> None:
        now = (_now(), trainer.step)
        if self.began is None and trainer.session.agent.updates >= SETTLED:
            self.began = now
            self.spent = dict.fromkeys(self.spent, 0.0)
        elif self.began and self.ended is None and now[0] - self.began[0] > self.seconds:
            self.ended = now
            trainer.stop()
        self._mark = _now()

    def after_update(self, trainer: Trainer, metrics: dict[str, Tensor]) -> None:
        self.updates += self.began is not None and self.ended is None

    def after_phase(self, trainer: Trainer, phase: Phase) -> None:
        now = _now()
        if self.ended is None:
            sampling = self._sampling if phase == "learning" else 0.0
            self.spent["update" if phase == "learning" else phase] += now - self._mark - sampling
            self.spent["replay"] += sampling
        self._mark, self._sampling = now, 0.0

    def passed(self) -> tuple[float, int]:
        """Return the seconds that were timed, and the transitions in them."""
        assert self.began
        assert self.ended
        return self.ended[0] - self.began[0], self.ended[1] - self.began[1]

    def shares(self) -> dict[str, float]:
        total, _ = self.passed()
        shares = {part: seconds / total for part, seconds in self.spent.items()}
        return shares | {"everything else": 1 - sum(shares.values())}

    def transitions_per_second(self) -> float:
        total, steps = self.passed()
        return steps / total


def _now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()  # otherwise the next phase that waits would be charged for this one's work
    return time.perf_counter()
