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
from flashsac.runs.metrics_file import Row
from flashsac.training.progress import Progress
from flashsac.training.summary import files_made, named_task, outcome

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
    named = named_task(plan.task)
    if stopped:
        print(
            f"\nsaved at step {session.source.step_count:,}. Go on with:\n  flashsac resume {run.path}{named}",
            flush=True,
        )
        return 130
    if plan.config.video:
        _film(run.path, plan.task)
    row = next(iter(read_metrics(run.path / layout.METRICS)[-1:]), {})
    lines = [f"\n{outcome(session.source.step_count, row, plan.config)}", *files_made(run.path), *_next(run.path, row)]
    print("\n".join(lines), flush=True)
    return 0


def _next(run_dir: Path, row: Row) -> list[str]:
    """The commands that draw the run, alone and with those beside it."""
    if "eval_return" not in row:
        return []
    beside = [file for file in run_dir.parent.glob(f"*/{layout.METRICS}") if file.parent != run_dir]
    places = [run_dir, run_dir.parent] if beside else [run_dir]
    return ["next:", *(f"  flashsac report {place} --out {place / 'curves'}" for place in places)]


def _film(run_dir: Path, task: str) -> None:
    """Draw the policy. A renderer that fails costs a note, never the run."""
    print(f"drawing {SECONDS:.0f} s of video (--no-video to skip) ...", flush=True)
    out = run_dir / layout.VIDEOS / VIDEO
    try:
        draw_apart("flashsac.experiments.baselines.film", (str(run_dir), str(out), str(SECONDS)), task, print)
    except (FlashSACError, OSError, subprocess.SubprocessError) as error:
        print(f"note: {error}", file=sys.stderr)
