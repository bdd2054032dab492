"""Resident memory over a hundred thousand updates: it must not grow once the replay is full.

python benchmarks/memory_growth.py [OUT.csv]
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

import psutil

from flashsac import api
from flashsac.runs.directory import Run
from flashsac.sims.defaults import configure
from flashsac.training.trainer import Trainer

TASK = "mujoco:HalfCheetah-v4"
MARKS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)


def main(out: str = "benchmarks/results/memory_growth.csv") -> None:
    config = configure(
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
    trainer = Trainer(Run.create(TASK, api.resolve(TASK, config)), TASK, resume=False)
    update, process, rows = trainer.agent.update, psutil.Process(), []

    def watched():
        metrics = update()
        if trainer.agent.updates in MARKS:
            rows.append((trainer.agent.updates, round(process.memory_info().rss / 2**20, 1)))
        return metrics

    trainer.agent.update = watched  # type: ignore[method-assign]
    trainer.train()
    with Path(out).open("w", newline="") as file:
        csv.writer(file).writerows([("updates", "rss_mib"), *rows])
    print(*rows, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
