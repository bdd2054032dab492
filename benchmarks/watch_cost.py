"""The cost of `flashsac watch` for the run that it follows: steps per second with and without it, in turns, and the
processor time that it takes itself.

    python benchmarks/watch_cost.py [OUT.csv]

A request for the page's data comes every five seconds, as from a browser. Blocks of some seconds alternate within one
run, so that a machine that gets slower or faster does not decide. Run nothing else meanwhile."""

from __future__ import annotations

import csv
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil

import flashsac
from flashsac.training.hooks import Hooks
from flashsac.training.trainer import Trainer

TASK = "mujoco:HalfCheetah-v4"
BLOCK = 12.0
"""Seconds of one block."""
BLOCKS = 8
EVERY = 5.0
"""Seconds between two requests, as by default."""


class Blocks(Hooks):
    """Steps per second of blocks with and without a watcher, after the first seconds of learning."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.rows: list[tuple[int, int, float, float]] = []
        self._watched: Watched | None = None
        self._start, self._step = 0.0, 0

    def before_step(self, trainer: Trainer) -> None:
        now = time.perf_counter()
        if not self._start:
            if trainer.session.agent.updates >= 50:
                self._start, self._step = now, trainer.step
            return
        if now - self._start < BLOCK:
            return
        seconds = now - self._start
        used = self._watched.close() / seconds if self._watched else 0.0
        speed = (trainer.step - self._step) / seconds
        self.rows.append((len(self.rows), int(self._watched is not None), speed, used))
        # In pairs: without, with, with, without, ...
        self._watched = Watched(self.runs) if len(self.rows) % 4 in (1, 2) else None
        if len(self.rows) == BLOCKS:
            if self._watched:
                self._watched.close()
            trainer.stop()
        self._start, self._step = time.perf_counter(), trainer.step


class Watched:
    """A `flashsac watch` that is asked for its data at the default interval."""

    def __init__(self, runs: Path) -> None:
        command = [sys.executable, "-m", "flashsac", "watch", str(runs), "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split(" on ")[1].split(" ")[0]
        self._about = psutil.Process(self.process.pid)
        self._before = self._used()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        while not self._over.wait(EVERY):
            urllib.request.urlopen(self.address + "data.json").read()

    def _used(self) -> float:
        times = self._about.cpu_times()
        return times.user + times.system

    def close(self) -> float:
        """End it; return the processor time it took since it began to listen."""
        self._over.set()
        self._thread.join()
        used = self._used() - self._before
        self.process.terminate()
        self.process.wait()
        return used


def main(out: str = "benchmarks/results/watch-cost.csv") -> None:
    runs = Path(tempfile.mkdtemp())
    blocks = Blocks(runs)
    settings: dict[str, Any] = dict(
        steps=1_000_000, eval={"every": 5_000, "episodes": 1}, checkpoint_every=0, video=False, log_every=100
    )
    settings |= dict(run_dir=str(runs / "run"), compile="off", agent={"warmup": 1000})
    flashsac.train(TASK, preset="laptop", hooks=[blocks], quiet=True, **settings)
    with Path(out).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["block", "watched", "steps_per_second", "share_of_a_core"])
        writer.writerows([i, watched, f"{speed:.2f}", f"{used:.4f}"] for i, watched, speed, used in blocks.rows)
    alone, watched = (statistics.median(row[2] for row in blocks.rows if row[1] == wanted) for wanted in (0, 1))
    used = statistics.median(row[3] for row in blocks.rows if row[1])
    print(f"steps per second: {alone:.1f} alone, {watched:.1f} watched: {watched / alone:.3f}; {used:.2%} of a core")


if __name__ == "__main__":
    main(*sys.argv[1:])
