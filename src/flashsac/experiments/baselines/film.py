"""The video of a baseline's policy, drawn in a process of its own: python -m flashsac.experiments.baselines.film."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from pathlib import Path

from flashsac.errors import CheckpointError
from flashsac.experiments.baselines import checkpoint
from flashsac.experiments.baselines.plan import recorded_plan
from flashsac.experiments.baselines.runner import make_learner
from flashsac.experiments.baselines.source import Source
from flashsac.policies.video import Say, drawing, record_here, to_draw
from flashsac.sims.make import make_env


def draw(run_dir: Path, out: Path, seconds: float, say: Say) -> None:
    """Film the last policy of a run."""
    plan, record = recorded_plan(run_dir)
    plan = dataclasses.replace(plan, config=dataclasses.replace(plan.config, device="cpu"))
    saved = checkpoint.load(run_dir, plan.task, record)
    if saved is None:
        raise CheckpointError(f"{run_dir} has no checkpoint yet.")
    with contextlib.closing(make_env(plan.task, dataclasses.replace(plan.config.env, num_envs=1))) as env:
        source = Source(env, plan.task, plan.config.max_invalid, say)
        source.reset(plan.config.seed)
        learner = make_learner(plan, source, plan.config.seed)
    learner.load_state_dict(saved[1]["learner"], networks_only=True)
    record_here(learner, plan.task, to_draw(plan.config.env), out, plan.config.seed, seconds, say)


if __name__ == "__main__":
    run_dir, out, seconds = sys.argv[1:]
    sys.exit(drawing(lambda say: draw(Path(run_dir), Path(out), float(seconds), say)))
