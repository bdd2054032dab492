"""A disk fills up thirty times while runs train on it, each time for 20 seconds. No row of metrics is lost, and
training ends.

    python benchmarks/full_disk.py [--fills 30] [--out FILE.csv]

It runs as root, on Linux. It exits with 1 if a row is missing or a run fails.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.layout import checkpoint_folders
from flashsac.runs.metrics import read_metrics

FULL_SECONDS, PAUSE_SECONDS = 20.0, 10.0
TASK, STEPS, LOG_EVERY = "gym:Pendulum-v1", 15_000, 200
TRAIN = (
    f"train {TASK} --preset laptop --steps {STEPS} --agent.warmup 1000 --agent.batch-size 16 --agent.critic-width 16 "
    f"--agent.actor-width 16 --agent.updates-per-transition 0.5 --env.num-envs 4 --eval.every 1000 --eval.episodes 1 "
    f"--log-every {LOG_EVERY} --checkpoint-every 1000 --replay.capacity 20000 --precision fp32 --compile off --no-video"
).split()


def fill(disk: Path) -> None:
    """To the last byte; what is freed meanwhile is taken too."""
    with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as file:
        for size in (2**16, 512, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass


def run_on_filling_disk(disk: Path, log: Path, seed: int) -> dict[str, object]:
    """One run, from its first checkpoint to its end, on a disk that fills up at random moments."""
    rng, run, fills = random.Random(seed), disk / "run", 0
    with log.open("w") as file:
        arguments = [*TRAIN, "--seed", str(seed), "--run-dir", str(run)]
        process = subprocess.Popen([sys.executable, "-m", "flashsac", *arguments], stdout=file, stderr=file)
    while process.poll() is None and not checkpoint_folders(run / "checkpoints"):
        time.sleep(0.1)
    while process.poll() is None:
        time.sleep(rng.uniform(0.0, PAUSE_SECONDS))
        if process.poll() is not None:
            break
        fills += 1
        end = time.monotonic() + FULL_SECONDS
        while time.monotonic() < end:
            fill(disk)
            time.sleep(0.2)
        (disk / "filler").unlink()
    said = log.read_text()
    checkpoint, problems = CheckpointStore(run, TASK).load()
    rows = read_metrics(run / "metrics.csv")
    evaluated = [row["step"] for row in rows if "eval_return" in row]
    return {
        "seed": seed,
        "fills": fills,
        "exit code": process.returncode,
        "step": checkpoint.step,
        "checkpoints that failed": said.count("the checkpoint at step"),
        "times rows were kept": said.count("metrics.csv could not be written"),
        "rows": len(rows),
        "rows lost": len(set(range(LOG_EVERY, STEPS + 1, LOG_EVERY)) - {row["step"] for row in rows}),
        "evaluations": len(evaluated),
        "tracebacks": said.count("Traceback"),
        "problems": "; ".join(problems) or "none",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fills", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/full-disk.csv"))
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    while sum(row["fills"] for row in rows) < given.fills:
        with tempfile.TemporaryDirectory() as folder:
            disk = Path(folder, "disk")
            disk.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", disk], check=True)
            try:
                rows.append(run_on_filling_disk(disk, Path(folder, "log"), len(rows)))
            finally:
                subprocess.run(["umount", "-l", disk], check=True)
        print(rows[-1], flush=True)
    with given.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    whole = {"exit code": 0, "step": STEPS, "rows lost": 0, "tracebacks": 0, "problems": "none"}
    return int(not all(whole.items() <= row.items() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
