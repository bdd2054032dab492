"""What `train` and `resume` say at their end: where things are, and what to do next."""

from __future__ import annotations

import math

from flashsac.robots.catalog import ROBOTS
from flashsac.runs.directory import read_config
from flashsac.sims.user_env import module_of
from flashsac.training.trainer import Result


def print_summary(result: Result) -> int:
    """Print it, and return the exit code."""
    run_dir = result.run_dir
    task, config = read_config(run_dir)
    own = "module:function" if task.startswith("custom:") else task
    named = f" --task {own}" if module_of(task) else ""  # its code runs only when it is asked for
    if result.interrupted:
        print(f"\nsaved at step {result.step:,}. Go on with:\n  flashsac resume {run_dir}{named}")
        return 130
    score, minutes = result.row.get("eval_return"), result.row.get("seconds", 0) / 60
    print(
        ("it had " if result.was_finished else "\n")
        + f"trained {result.step:,} steps in {minutes:.1f} minutes (evaluations not counted)"
        + (f", evaluated return {score:.1f}" if score is not None else "")
        + (f" (best {result.best:.1f})" if score is not None and math.isfinite(result.best) else "")
    )
    made = {
        "videos/final.mp4": "the robot",
        "checkpoints/best.safetensors": "the best policy",
        "metrics.csv": "the numbers",
    }
    for name, what in made.items():
        if (run_dir / name).exists():
            print(f"  {run_dir / name}  ({what})")
    undrawable = result.video is None and config.video
    print("next:")
    for command, useful in (
        (f"play {run_dir}{named}", not undrawable),
        (f"eval {run_dir}{named}", True),
        (f"report {run_dir} --out {run_dir}/curves", math.isfinite(result.best)),
        (f"export {run_dir}", task in ROBOTS),
    ):
        if useful:
            print(f"  flashsac {command}")
    return 0
