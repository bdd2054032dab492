"""Where the wall-clock time of a real run goes: simulation, acting, replay, update."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import torch

from flashsac import api
from flashsac.bench.figures import Row
from flashsac.config.schema import PresetName
from flashsac.runs.directory import Run
from flashsac.sims.defaults import configure
from flashsac.training.trainer import Trainer

SETTLED = 20
"""Updates until everything is compiled."""


def wall_clock(
    task: str, preset: PresetName, seconds: float, *, precision: str, overlap: bool = True, compiled: bool = True
) -> list[Row]:
    """Shares of the time, measured over `seconds` of training. With `overlap`, simulation's share is what is left to wait for."""
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
        trainer = Trainer(Run.create(task, api.resolve(task, config)), task, resume=False, quiet=True)
        stopwatch = Stopwatch(trainer, seconds)
        trainer.train()
    if not stopwatch.ended:
        raise KeyboardInterrupt  # the trainer ends a run politely; whoever pressed Ctrl-C means all of this
    case = f"{task} {trainer.config.precision}{'' if overlap else ', no overlap'}"
    rows = [Row("loop", case, name, 100 * share, "%") for name, share in stopwatch.shares().items()]
    return [*rows, Row("loop", case, "end to end", stopwatch.transitions_per_second(), "transitions/s")]


class Stopwatch:
    """Watches a trainer from its twentieth update on, and stops it when `seconds` have passed."""

    def __init__(self, trainer: Trainer, seconds: float):
        self.trainer, self.seconds = trainer, seconds
        self.spent: dict[str, float] = {}
        self.began: tuple[float, int] | None = None
        self.ended: tuple[float, int] | None = None
        agent, env = trainer.agent, trainer.env
        for method in ("send", "receive") if trainer.overlaps else ("step",):
            self._watch(env, method, "simulation")
        self._watch(agent, "observe", "replay")
        self._watch(agent.replay, "sample", "replay")
        self._watch(agent, "_update_both", "update")
        self._watch(agent, "_update_critic", "update")
        self._watch(agent, "act", "acting", before=self._look)

    def _watch(self, owner: Any, method: str, part: str, before: Any = lambda: None) -> None:
        real = getattr(owner, method)
        self.spent[part] = 0.0

        def timed(*args: Any, **options: Any) -> Any:
            before()
            start = self._now()
            result = real(*args, **options)
            if self.ended is None:
                self.spent[part] += self._now() - start
            return result

        setattr(owner, method, timed)

    def _look(self) -> None:
        """At the clock, once an iteration."""
        now = (self._now(), self.trainer.step)
        if self.began is None and self.trainer.agent.updates >= SETTLED:
            self.began = now
            self.spent = dict.fromkeys(self.spent, 0.0)
        elif self.began and self.ended is None and now[0] - self.began[0] > self.seconds:
            self.ended = now
            self.trainer.stop()

    def _now(self) -> float:
        if self.trainer.agent.device.type == "cuda":
            torch.cuda.synchronize()  # or the next one to wait would be charged for it
        return time.perf_counter()

    def _passed(self) -> tuple[float, int]:
        assert self.began
        assert self.ended
        return self.ended[0] - self.began[0], self.ended[1] - self.began[1]

    def shares(self) -> dict[str, float]:
        total, _ = self._passed()
        shares = {part: seconds / total for part, seconds in self.spent.items()}
        return shares | {"everything else": 1 - sum(shares.values())}

    def transitions_per_second(self) -> float:
        total, steps = self._passed()
        return steps / total
