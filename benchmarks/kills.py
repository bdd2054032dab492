"""A run that is killed a hundred times, most of them while it saves, comes to the same as one that is left alone, bit
for bit.

python benchmarks/kills.py [--kills 100] [--out FILE.csv]      exits with 1 if anything differs
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

import flashsac
from flashsac.runs.layout import checkpoint_folders, step_of
from flashsac.runs.metrics import TIMINGS, read_metrics
from flashsac.training.hooks import Hooks
from flashsac.training.trainer import Trainer

PER_RUN = 25
"""Kills of one run; then another run begins, with another seed."""
TASK = "mujoco:Hopper-v4"
SETTINGS: dict[str, Any] = dict(
    preset="single",
    steps=100_000,
    agent=dict(warmup=150, batch_size=8, critic_width=8, actor_width=8, updates_per_transition=0.25),
    replay=dict(capacity=2000),
    eval=dict(every=1000, episodes=1),
    log_every=50,
    checkpoint_every=20,
    precision="fp32",
    compile="off",
    video=False,
)


class StopAt(Hooks):
    """Ends a run in order."""

    def __init__(self, step: int):
        self._step = step

    def before_step(self, trainer: Trainer) -> None:
        if trainer.step >= self._step:
            trainer.stop()


def train(run: Path, seed: int, until: int) -> None:
    """In a process of its own: begin the run, or go on with it."""
    if (run / "config.json").exists():
        flashsac.resume(run, quiet=True, hooks=[StopAt(until)])
    else:
        flashsac.train(TASK, run_dir=str(run), seed=seed, quiet=True, hooks=[StopAt(until)], **SETTINGS)


def start(run: Path, seed: int, until: int = SETTINGS["steps"]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--train", str(run), str(seed), str(until)])


def kill_at_random(process: subprocess.Popen[bytes], run: Path, rng: random.Random) -> bool:
    """Wait for its first new checkpoint, then kill it; four times out of five in the middle of a save. False if it had
    ended."""
    first = checkpoint_folders(run / "checkpoints")[:1]
    while process.poll() is None and checkpoint_folders(run / "checkpoints")[:1] in (first, []):
        time.sleep(0.002)
    time.sleep(rng.uniform(0.0, 0.5))
    if rng.random() < 0.8:
        while process.poll() is None and not list((run / "checkpoints").glob(".writing-step-*")):
            pass
        time.sleep(rng.uniform(0.0, 0.02))
    if process.poll() is not None:
        return False
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return True


def differences(one: Path, other: Path) -> list[str]:
    """What differs: rows of metrics.csv without their times, and the tensors of the newest checkpoint."""
    rows = [
        [
            {name: value for name, value in row.items() if name not in TIMINGS}
            for row in read_metrics(run / "metrics.csv")
        ]
        for run in (one, other)
    ]
    states = [load_file(checkpoint_folders(run / "checkpoints")[0] / "state.safetensors") for run in (one, other)]
    if states[0].keys() != states[1].keys():
        return ["the names of the tensors"]
    different = [name for name in states[0] if not states[0][name].equal(states[1][name])]
    return different + (["metrics.csv"] if rows[0] != rows[1] else [])


def killed_run(folder: Path, kills: int, seed: int) -> dict[str, object]:
    """One run that is killed so often, and one of the same length that is left alone."""
    rng, killed, alone = random.Random(seed), folder / f"killed-{seed}", folder / f"alone-{seed}"
    process, mid_save = start(killed, seed), 0
    for number in range(kills):
        if not kill_at_random(process, killed, rng):
            raise SystemExit(f"the run ended by itself, with code {process.returncode}, before kill {number + 1}")
        mid_save += bool(list((killed / "checkpoints").glob(".writing-step-*")))
        step = step_of(checkpoint_folders(killed / "checkpoints")[0]) + 500
        process = start(killed, seed, SETTINGS["steps"] if number + 1 < kills else step)
    if process.wait() or start(alone, seed, step).wait():
        raise SystemExit("a run failed")
    return {
        "seed": seed,
        "kills": kills,
        "in the middle of a save": mid_save,
        "step": step,
        "rows": len(read_metrics(killed / "metrics.csv")),
        "differences": " ".join(differences(alone, killed)) or "none",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/kills.csv"))
    parser.add_argument("--train", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        run, seed, until = given.train
        train(Path(run), int(seed), int(until))
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(-(-given.kills // PER_RUN)):
            rows.append(killed_run(Path(folder), min(PER_RUN, given.kills - seed * PER_RUN), seed))
            print(rows[-1], flush=True)
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return int(any(row["differences"] != "none" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
