"""A baseline's run from its beginning, or from its last checkpoint; then its video and its last words."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

from flashsac.errors import FlashSACError
from flashsac.experiments.baselines import checkpoint
from flashsac.experiments.baselines.plan import Plan, device_of, recorded_plan
from flashsac.experiments.baselines.runner import BaselineRun, Schedule
from flashsac.policies.find import check_named_task
from flashsac.policies.video import draw_apart
from flashsac.runs import layout
from flashsac.runs.directory import Run
from flashsac.runs.metrics import read_metrics
from flashsac.training.progress import Progress

VIDEO = "final.mp4"
SECONDS = 10.0
"""Length of the video at the end of a run."""


def train(plan: Plan) -> int:
    """Train in a new run directory; return the exit code."""
    run = Run.create(plan.task, plan.config)
    try:
        session = BaselineRun(plan, run, _progress(plan), resume=False)
    except BaseException:
        run.close()
        run.discard()
        raise
    return _finish(session)


def resume(run_dir: str | Path, task: str | None = None, *, device: str | None = None, trust_run: bool = False) -> int:
    """Go on from the last checkpoint of a run; return the exit code. `device` is another one than before."""
    plan, record = recorded_plan(run_dir)
    device = device_of(plan.algorithm, device or plan.config.device)
    plan = dataclasses.replace(plan, config=dataclasses.replace(plan.config, device=device))
    if task is None:
        check_named_task(Path(run_dir), plan.task, trust_run)
    elif task != plan.task:
        raise FlashSACError(f"{run_dir} trains on {plan.task}, not on {task}: the task of a run is fixed.")
    run = Run(Path(run_dir), plan.task, plan.config, record)
    try:
        saved = checkpoint.load(run.path, plan.task, record)
        if saved and Schedule(plan).over(saved[0], saved[1]["seconds"]) and not saved[1]["evaluation_due"]:
            run.close()
            print(f"{run_dir} is finished at step {saved[0]:,}. There is nothing left to train.")
            if plan.config.video and not (run.path / layout.VIDEOS / VIDEO).exists():
                _film(run.path, plan.task)
            return 0
        session = BaselineRun(plan, run, _progress(plan), resume=True)
    except BaseException:
        run.close()
        raise
    return _finish(session)


def _progress(plan: Plan) -> Progress:
    return Progress(plan.config.steps if plan.minutes is None else 0)


def _finish(session: BaselineRun) -> int:
    """Train, film the policy, and say what came out."""
    run, plan = session.run, session.plan
    try:
        stopped = session.train()
    finally:
        run.close()
    if stopped:
        print(f"\nsaved at step {session.source.step_count:,}. Go on with:\n  flashsac resume {run.path}", flush=True)
        return 130
    if plan.config.video:
        _film(run.path, plan.task)
    row = next(iter(read_metrics(run.path / layout.METRICS)[-1:]), {})
    score = f", evaluated return {row['eval_return']:.1f}" if "eval_return" in row else ""
    taken = row.get("seconds", 0.0) / 60
    print(f"\ntrained {session.source.step_count:,} steps in {taken:.1f} minutes (evaluations not counted){score}")
    print(f"next:\n  flashsac report {run.path} OTHER_RUN ... --out {run.path}/curves", flush=True)
    return 0


def _film(run_dir: Path, task: str) -> None:
    """Draw the policy. A renderer that fails costs a note, never the run."""
    print(f"drawing {SECONDS:.0f} s of video (--no-video to skip) ...", flush=True)
    out = run_dir / layout.VIDEOS / VIDEO
    try:
        draw_apart("flashsac.experiments.baselines.film", (str(run_dir), str(out), str(SECONDS)), task, print)
    except (FlashSACError, OSError, subprocess.SubprocessError) as error:
        print(f"note: {error}", file=sys.stderr)
