"""Runs for tests of reports: written by the writers of a real run, with made-up numbers."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np

import flashsac
from flashsac.runs.directory import Run
from flashsac.runs.metrics import MetricsLog
from flashsac.runs.wall_clock import WallClock

TASK = "mujoco:HalfCheetah-v4"
COLUMNS = (
    "step",
    "eval_return",
    "q",
    "critic_loss",
    "seconds",
    "diag/critic_condition",
    "diag/critic/blocks.0/weight_norm",
)


def record_run(
    path: Path, task: str = TASK, seed: int = 0, rows: int = 20, final: float = 1000.0, **settings: Any
) -> Path:
    """Write config.json and `rows` rows of metrics.csv: returns rise to `final`, evaluated in every second row."""
    run = Run.create(task, flashsac.configure(task, "laptop", run_dir=str(path), seed=seed, **settings))
    run.write_config()
    run.close()
    append_rows(path, range(1, rows + 1), seed, final)
    return path


def append_rows(path: Path, rows: range, seed: int = 0, final: float = 1000.0) -> None:
    """Continue metrics.csv, as a run does that goes on."""
    before = (rows.start - 1) * 500 if rows.start > 1 else None
    log = MetricsLog(path, columns=COLUMNS, resume_step=before)
    for i in rows:
        row = {
            "step": i * 500,
            "q": 0.1 * i + 0.05 * math.sin(i + seed),
            "critic_loss": 5.0 / i + 0.1 * seed,
            "seconds": i * (10.0 + seed),
        }
        if i % 2 == 0:
            row["eval_return"] = final * (1 - math.exp(-i / 8)) + 20 * seed
            row["diag/critic_condition"] = 10.0 ** min(6.0, 1 + i / 20) * (1 + 0.1 * seed)
            row["diag/critic/blocks.0/weight_norm"] = 3.0 + 0.01 * i
        log.write(row)
    log.close()


def add_video(run: Path, name: str = "final.mp4", seconds: int = 3) -> Path:
    """Write a short H.264 video, as the recorder does."""
    (run / "videos").mkdir(exist_ok=True)
    frames = [np.full((64, 96, 3), (5 * i % 255, 120, 200), np.uint8) for i in range(20 * seconds)]
    imageio.mimsave(run / "videos" / name, frames, fps=20, macro_block_size=1)
    return run / "videos" / name


def add_coverage(run: Path) -> None:
    """Write a coverage.json: replay is spread out, the policy is not."""
    edges = np.linspace(-1, 1, 9)
    middle = (edges[1:] + edges[:-1]) / 2
    replay = np.exp(-2 * (middle[:, None] ** 2 + middle[None] ** 2))
    policy = np.where(np.abs(middle[:, None] - middle[None]) < 0.3, 1.0, 0.0)
    pair = {
        "x": "observation 0",
        "y": "action 1",
        "x_edges": edges.tolist(),
        "y_edges": edges.tolist(),
        "replay": replay.tolist(),
        "policy": policy.tolist(),
        "support_replay": 0.8,
        "support_policy": 0.3,
    }
    (run / "coverage").mkdir()
    (run / "coverage" / "coverage.json").write_text(json.dumps({"pairs": [pair, pair | {"y": "action 2"}]}))


def add_wall_clock(run: Path) -> None:
    """Write a measurement by the paper's protocol."""
    WallClock(
        task=TASK,
        simulation_seconds_per_step=0.001,
        acting_seconds_per_step=0.0005,
        update_seconds=0.02,
        steps=1,
        updates=1,
        real_seconds=1.0,
        num_envs=1,
        precision="fp32",
        compiled=False,
        device="cpu",
        machine="two cores",
        measured_steps=100,
        measured_updates=100,
    ).write(run)


def remove(run: Path) -> None:
    shutil.rmtree(run)
