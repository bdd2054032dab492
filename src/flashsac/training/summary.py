"""What a run says at its end: what came out, where things are, and what to do next."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from flashsac.config.schema import TrainConfig
from flashsac.robots.catalog import ROBOTS
from flashsac.runs import layout
from flashsac.runs.directory import read_config
from flashsac.runs.metrics_file import Row
from flashsac.sims.user_names import module_of, name_of
from flashsac.training.trainer import Result

ENOUGH_UPDATES = 10_000
"""Fewer updates than this rarely learn anything (docs/tuning.md)."""


def summary(result: Result, source: Any = None) -> str:
    """Return the text for a finished or interrupted run. `source` is what made its environments, if the user handed
    it over."""
    run_dir = result.run_dir
    task, config = read_config(run_dir)
    named = named_task(task, source)
    if result.interrupted:
        return f"\nsaved at step {result.step:,}. Go on with:\n  flashsac resume {run_dir}{named}"
    lines = [("it had " if result.was_finished else "\n") + outcome(result.step, result.row, config, result.best)]
    lines += [*_too_short(result, config), *files_made(run_dir)]
    drawable = result.video is not None or (not config.video and not task.startswith("custom:"))
    commands = (
        (f"play {run_dir}{named}", drawable),
        (f"eval {run_dir}{named}", True),
        (f"report {run_dir} --out {run_dir}/curves", math.isfinite(result.best)),
        (f"export {run_dir}", task in ROBOTS),
    )
    return "\n".join([*lines, "next:", *(f"  flashsac {command}" for command, useful in commands if useful)])


def named_task(task: str, source: Any = None) -> str:
    """What a command on such a run needs beside the run: code of the user's own runs only when it is asked for."""
    own = (name_of(source) or "module:function") if task.startswith("custom:") else task
    return f" --task {own}" if module_of(task) else ""


def files_made(run_dir: Path) -> list[str]:
    """Return one line for every file of a run that people look at."""
    made = {
        f"{layout.VIDEOS}/final.mp4": "the robot",
        f"{layout.CHECKPOINTS}/{layout.BEST}": "the best policy",
        layout.METRICS: "the numbers",
    }
    return [f"  {run_dir / name}  ({what})" for name, what in made.items() if (run_dir / name).exists()]


def outcome(step: int, row: Row, config: TrainConfig, best: float = math.nan) -> str:
    """Return what a run came to, by its last row of metrics."""
    text = f"trained {step:,} steps in {row.get('seconds', 0) / 60:.1f} minutes (evaluations not counted)"
    if (score := row.get("eval_return")) is None:
        return text
    episodes = config.eval.episodes - int(row.get("eval_void", 0))
    spread = f" ± {row['eval_return_std']:.1f}" if "eval_return_std" in row else ""
    highest = f" (best {best:.1f})" if math.isfinite(best) else ""
    return f"{text}, evaluated return {score:.1f}{spread} over {episodes} episodes{highest}"


def _too_short(result: Result, config: TrainConfig) -> list[str]:
    """A note if the run was too short to have learned."""
    updates = int(result.row.get("updates", 0))
    if updates >= ENOUGH_UPDATES:
        return []
    steps = config.agent.warmup + math.ceil(1.5 * ENOUGH_UPDATES / config.agent.updates_per_transition)
    return [
        f"note: the run made {updates:,} updates; most tasks need 10,000 to 15,000, or more. If it has not learned enough, train for "
        f"{steps:,} steps (--steps), or make more updates per step (--agent.updates-per-transition)."
    ]
