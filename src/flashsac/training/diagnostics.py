"""The hook that measures the networks every so many transitions, and adds the measures to the row of metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from flashsac.config.schema import TrainConfig
from flashsac.core.diagnostics import diagnose, metrics_of
from flashsac.training.counters import crossed
from flashsac.training.hooks import Hooks


class Diagnostics(Hooks):
    """Measures in the first row after each multiple of `--diagnostics.every`. The time does not count as training."""

    def __init__(self, config: TrainConfig):
        self.config = config.diagnostics
        self.METRICS = metrics_of(config.agent.blocks)

    def row_metrics(self, trainer: Any) -> dict[str, float]:
        session = trainer.session
        agent, step = session.agent, session.step
        if not crossed(int(session.row.get("step", 0)), step, self.config.every) or not agent.ready_to_learn:
            return {}
        if not agent.learner.finite():
            return {}  # the next evaluation or checkpoint reports it
        # Seeded by the step: a resumed run measures the same, and draws nothing from the agent's generators.
        seed = np.random.SeedSequence([session.config.seed, step]).generate_state(1)[0]
        generator = torch.Generator().manual_seed(int(seed))
        update, iterations = agent.draw_update(generator), self.config.lanczos_iterations
        return diagnose(agent.learner, *update, generator=generator, iterations=iterations)


def diagnostics_hooks(config: TrainConfig) -> tuple[Hooks, ...]:
    """The hook, where it is on."""
    return (Diagnostics(config),) if config.diagnostics.every else ()
