"""Finding a trained policy on disk, and the task it can be tried on, also after a run that was begun from Python."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flashsac.config.schema import EnvConfig
from flashsac.errors import CheckpointError, FlashSACError, UntrustedRun
from flashsac.policies.policy import Policy, read_policy
from flashsac.runs import layout
from flashsac.runs.directory import read_config, read_record, refuse_baseline
from flashsac.runs.seal import MALFORMED, parse_object
from flashsac.sims.catalog import check_task
from flashsac.sims.user_names import file_of, module_of


def load_policy(path: str | Path, checkpoint: str | int | None = None) -> Policy:
    """Load a policy file, or a policy of a run directory: "best", "last" or a step; by default the best, else the
    newest."""
    return read_policy(policy_file(Path(path), checkpoint))


def policy_file(path: Path, checkpoint: str | int | None = None) -> Path:
    """The file: of a run directory, of its folder of checkpoints, of one checkpoint, or `path` itself."""
    if not path.exists():
        raise CheckpointError(f"{path} does not exist. Name a run directory or a policy file.")
    file = path if path.is_file() else path / layout.POLICY
    if file.exists():
        if checkpoint is not None:
            raise CheckpointError(f"{path} is one policy already; --checkpoint chooses among those of a run directory.")
        return file
    folder = path if path.name == layout.CHECKPOINTS else path / layout.CHECKPOINTS
    by_step = {layout.step_of(file): file for file in layout.policies_alone(folder)}
    whole = [saved / layout.POLICY for saved in layout.checkpoint_folders(folder)]
    by_step |= {layout.step_of(file.parent): file for file in whole if file.exists()}
    steps = {str(step): [by_step[step]] for step in sorted(by_step, reverse=True)}
    newest = [file for (file,) in steps.values()]
    best = [file for file in (folder / layout.BEST,) if file.exists()]
    if not best + newest:
        if run := layout.run_of(path):
            refuse_baseline(read_record(run))
        raise CheckpointError(
            f"there is no policy in {path}: it is no run directory, or its run has saved no checkpoint yet."
        )
    wanted = str(checkpoint).removeprefix("step-").lstrip("0") or "0" if checkpoint is not None else None
    found = best + newest if wanted is None else ({"best": best, "last": newest} | steps).get(wanted, [])
    if not found:
        raise CheckpointError(
            f"there is no checkpoint '{checkpoint}' in {path}; there are {', '.join((['best'] if best else []) + ['last', *steps])}."
        )
    return found[0]


def trained_steps(policy_file: Path) -> int | None:
    """The step of training at which a policy was saved, if the files beside it say so."""
    with contextlib.suppress(OSError, *MALFORMED):
        if layout.is_checkpoint(policy_file.parent):
            return layout.step_of(policy_file.parent)
        return int(parse_object(policy_file.with_suffix(".json").read_text())["step"])
    return None


@dataclasses.dataclass(frozen=True)
class PolicyOnTask:
    """A policy, and where it can be tried."""

    policy: Policy
    task: Any
    """What `make_env` takes."""
    env: EnvConfig
    videos: Path
    """The default directory of its videos."""

    def __str__(self) -> str:
        settings = " ".join(self.env.options)
        return f"{self.task} with {settings}" if settings else str(self.task)


def check_named_task(run: Path, task: str, trust_run: bool) -> None:
    """Refuse a task that only the run names, if it cannot be made or would run code that the user did not name."""
    if task.startswith("custom:"):
        raise FlashSACError(
            f"{run} was trained from Python on an environment of your own ({task}). Name what makes it with --task "
            "module:function; from Python hand it over: flashsac.resume(run_dir, env), flashsac.evaluate(run_dir, env), "
            "flashsac.play(run_dir, env)."
        )
    module = module_of(task)
    if module is None or trust_run:
        return
    raise UntrustedRun(
        f"{run} names the task {task}. To make it, the module '{module}' is imported ({file_of(module)}), and its code runs. A run "
        f"directory alone does not decide that. If you want it, name it: --task {task}, or allow whatever the run names: "
        f"--trust-run (from Python: env={task!r}, or trust_run=True).",
        task,
    )


def locate_policy(
    source: str | Path | Policy,
    env: Any = None,
    checkpoint: str | int | None = None,
    options: Sequence[str] | None = None,
    engine: str | None = None,
    *,
    trust_run: bool = False,
) -> PolicyOnTask:
    """`env`, `options` and `engine` replace those of the training. The training's options count on the training's task
    only.

    A run directory or a policy file names only tasks of simulators. With `trust_run` a run directory names modules too.
    """
    if isinstance(env, str):
        check_task(env)
    run = None if isinstance(source, Policy) else layout.run_of(Path(source))
    policy = source if isinstance(source, Policy) else load_policy(source, checkpoint)
    if run is None:
        task = policy.named_task() if env is None else env
        settings, videos = policy.env_config(), Path() if isinstance(source, Policy) else Path(source).parent
    else:
        task, config = read_config(run)
        settings, videos = config.env, run / layout.VIDEOS
        if env is not None:
            task, settings = env, dataclasses.replace(config.env, engine="auto")
        else:
            check_named_task(run, task, trust_run)
    if options is None and task != policy.task:
        options = ()
    changes: dict[str, Any] = {} if options is None else {"options": tuple(options)}
    changes |= {} if engine is None else {"engine": engine}
    return PolicyOnTask(policy, task, dataclasses.replace(settings, **changes), videos)
