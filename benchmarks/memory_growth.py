"""Resident memory over a hundred thousand updates: it must not grow once the replay is full.

python benchmarks/memory_growth.py [OUT.csv]
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

import psutil
from torch import Tensor

import flashsac
from flashsac.training.hooks import Hooks
from flashsac.training.trainer import Trainer

TASK = "mujoco:HalfCheetah-v4"
MARKS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)


class MemoryWatch(Hooks):
    """Resident memory after so many updates."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, float]] = []

    def after_update(self, trainer: Trainer, metrics: dict[str, Tensor]) -> None:
        updates = trainer.session.agent.updates
        if updates in MARKS:
            self.rows.append((updates, round(psutil.Process().memory_info().rss / 2**20, 1)))


def main(out: str = "benchmarks/results/memory_growth.csv") -> None:
    config = flashsac.configure(
        TASK,
        "laptop",
        steps=205_000,
        agent={"batch_size": 64, "critic_width": 32, "actor_width": 32},
        replay={"capacity": 20_000},  # full early, so that growth is ours and not the replay's first touch
        eval={"every": 0},
        checkpoint_every=0,
        run_dir=f"{tempfile.mkdtemp()}/run",
        video=False,
    )
    watch = MemoryWatch()
    flashsac.train(TASK, config, hooks=[watch])
    rows = watch.rows
    with Path(out).open("w", newline="") as file:
        csv.writer(file).writerows([("updates", "rss_mib"), *rows])
    print(*rows, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
