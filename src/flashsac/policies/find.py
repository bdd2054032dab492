"""What a trained policy is for: measuring and watching it, also after a run that was begun from Python."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError
from flashsac.policies.evaluation import Evaluation, Evaluator
from flashsac.policies.policy import Policy, load_policy
from flashsac.policies.video import checked_out, record
from flashsac.runs.directory import read_config
from flashsac.sims.catalog import check_task
from flashsac.sims.user_env import more_like

SEED = 12345


@dataclasses.dataclass(frozen=True)
class Trained:
    """A policy, and where it can be tried."""

    policy: Policy
    task: Any
    """What `make_env` takes."""
    env: EnvConfig
    videos: Path
    """Where its videos go unless somebody says otherwise."""

    def __str__(self) -> str:
        settings = " ".join(self.env.options)
        return f"{self.task} with {settings}" if settings else str(self.task)


def find(
    source: str | Path | Policy,
    env: Any = None,
    checkpoint: str | int | None = None,
    options: Sequence[str] | None = None,
    engine: str | None = None,
) -> Trained:
    """`options`, `engine`: instead of the training's. The training's options are for the task they were given for, and no other."""
    found = _find(source, env, checkpoint)
    if options is None and found.task != found.policy.task:
        options = ()
    changes: dict[str, Any] = {} if options is None else {"options": tuple(options)}
    changes |= {} if engine is None else {"engine": engine}
    return dataclasses.replace(found, env=dataclasses.replace(found.env, **changes))


def _find(source: str | Path | Policy, env: Any, checkpoint: str | int | None) -> Trained:
    """A run directory is the user's own, so the task it names is made; a bare policy file names only tasks that are known."""
    if isinstance(env, str):
        check_task(env)
    if isinstance(source, Policy):
        return Trained(source, source.named_task() if env is None else env, source.env_config(), Path())
    policy, run = load_policy(source, checkpoint), _run_of(Path(source))
    if run is None:
        task = policy.named_task() if env is None else env
        return Trained(policy, task, policy.env_config(), Path(source).parent)
    task, config = read_config(run)
    if env is not None:
        return Trained(policy, env, dataclasses.replace(config.env, engine="auto"), run / "videos")
    if task.startswith("custom:"):
        raise FlashSACError(
            f"{run} was trained from Python on an environment of your own ({task}). Name what makes it with --task module:function; "
            "from Python hand it over: flashsac.evaluate(run_dir, env), flashsac.play(run_dir, env)."
        )
    return Trained(policy, task, config.env, run / "videos")


def _run_of(path: Path) -> Path | None:
    """The run directory that a directory is, or lies in; None for a file."""
    if not path.is_dir():
        return None
    if path.name.startswith("step-") and path.parent.name == "checkpoints":
        path = path.parent
    run = path.parent if path.name == "checkpoints" else path
    return run if (run / "config.json").exists() else None


def evaluate(
    run_or_policy: str | Path | Policy,
    env: Any = None,
    episodes: int = 10,
    seed: int = SEED,
    *,
    checkpoint: str | int | None = None,
    options: Sequence[str] | None = None,
    engine: str | None = None,
) -> Evaluation:
    """Returns, lengths and successes of a trained policy. `env`: a task name, a function that makes environments, or one of them,
    needed only where the run was begun from Python with an environment of your own. `options`: settings of the simulator's own, as
    "name=value", instead of those it was trained with; `()` for the task as it stands. `engine`: likewise."""
    return measure(find(run_or_policy, env, checkpoint, options, engine), episodes, seed)


def measure(found: Trained, episodes: int, seed: int) -> Evaluation:
    """Episodes of a policy, in environments of their own."""
    evaluator = Evaluator(more_like(found.task), found.env, episodes, seed)
    try:
        found.policy.check_fits(evaluator.env.spec)
        return evaluator.judge(found.policy)
    finally:
        evaluator.close()


def play(
    run_or_policy: str | Path | Policy,
    env: Any = None,
    out: str | Path | None = None,
    *,
    seconds: float = 15.0,
    seed: int = SEED,
    checkpoint: str | int | None = None,
    options: Sequence[str] | None = None,
    engine: str | None = None,
    say: Callable[[str], None] | None = None,
) -> Path:
    """Film a trained policy; returns the video (default: play.mp4 among the run's videos). The rest as in `evaluate`."""
    file = None if out is None else checked_out(Path(out))  # before anything is made
    found = find(run_or_policy, env, checkpoint, options, engine)
    out = file or found.videos / "play.mp4"
    return record(found.policy, out, task=found.task, env=found.env, seed=seed, seconds=seconds, say=say)
