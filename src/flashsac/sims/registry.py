"""Task names to simulators: "suite:task", or "module:function" for a user's own. Simulators are imported when one is made."""

from __future__ import annotations

import copy
import difflib
import importlib
import importlib.util
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from flashsac.config.schema import EngineName, EnvConfig
from flashsac.errors import FlashSACError, MissingExtra, NotEnoughMemory, UnknownTask, UnsupportedSpace
from flashsac.sims.catalog import Task, check_task, find_task, suite_of, unknown_task
from flashsac.sims.engines import ENGINES, Options
from flashsac.system.memory import available_memory, size_text

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv

ON_CPU = ("envpool", "gymnasium", "dm_control", "humanoidbench", "pixels")
"""Engines that keep a whole model in main memory for every environment."""
UNMEASURED_MEGABYTES = {"myosuite": 60.0, "playground": 60.0, "humanoidbench": 60.0, "dmc-vision": 80.0}
"""Of one environment, where tasks.csv has no figure: what others of its suite take, for HumanoidBench what Playground's humanoids do,
from images a walker and its renderer (a dog: 290); 20 in suites that are not here."""


def make_env(
    task: str | Callable[[], Any] | Any, config: EnvConfig, *, render: bool = False, device: str = "cpu"
) -> VecEnv:
    """Environments for a task name, for a factory (of one or of many), or for an object that is an environment."""
    from flashsac.sims.vector.views import viewed

    name = task if isinstance(task, str) else str(getattr(task, "__name__", type(task).__name__))
    return viewed(_make(task, config, render, device), config, name)


def _make(task: Any, config: EnvConfig, render: bool, device: str) -> VecEnv:
    if not isinstance(task, str):
        return _users_own(task, config, render=render)
    check_task(task)
    suite = suite_of(task)
    if suite is None:
        return _users_own(_import_factory(task), config, name=task, render=render)
    images = (config.image_size, config.frame_stack, config.with_state)
    options = Options(
        config.num_envs, config.max_episode_steps, render, device, *images, config.overlap, config.options
    )
    known = find_task(task)
    if known is None:
        return _registered_with_gymnasium(task, options)
    check_memory(known, config, device)
    engine = choose_engine(known, config)
    if config.options and engine not in ("envpool", "genesis"):
        raise FlashSACError(f"--env.options are for EnvPool and Genesis, but {task} runs on {engine}.")
    env = ENGINES[engine].make(known, options)
    if suite == "playground":
        from flashsac.tasks.joystick import described

        env.spec = described(env.spec, known.name)
    return env


def choose_engine(task: Task, config: EnvConfig) -> EngineName:
    """Which engine will simulate a task: the one asked for, or the best that is installed."""
    if config.engine != "auto":
        if config.engine not in task.engines:
            raise FlashSACError(
                f"{task.full_name} does not run on {config.engine}; it runs on {', '.join(task.engines)}."
            )
        order = [config.engine]
    else:
        # EnvPool is the fast one, but these can save their state; with one environment speed matters less.
        exact = {"gymnasium", "dm_control"}
        order = sorted(task.engines, key=lambda name: (name in exact) != (config.num_envs == 1))
    for name in order:
        if ENGINES[name].packages[task.suite].installed:
            return name
    packages = [ENGINES[name].packages[task.suite] for name in order]
    raise MissingExtra(
        f"{task.full_name} needs a package that is not installed ({' or '.join(package.module for package in packages)}). Install it "
        f"with: {' or '.join(package.install for package in packages)}"
    )


def check_memory(task: Task, config: EnvConfig, device: str) -> None:
    """Refuse, before any is made, more environments than fit: a machine out of memory kills the process, or stands still."""
    each, num_envs = 1e6 * _megabytes_each(task, config, device), config.num_envs
    available = 0.9 * available_memory()
    if num_envs * each > available:
        fit = int(available / each)
        advice = (
            f"{fit:,} fit: --env.num-envs {2 ** int(math.log2(fit))}"
            if fit
            else "Not even one fits: end other programs, or raise the limit of this container or job."
        )
        raise NotEnoughMemory(
            f"{num_envs:,} environments of {task.full_name} take about {size_text(num_envs * each)}, but only "
            f"{size_text(available)} of memory are free for them. {advice}"
        )


def _megabytes_each(task: Task, config: EnvConfig, device: str) -> float:
    """Main memory that every further environment takes; 0 where they share one model, or live on a GPU."""
    engine = choose_engine(task, config)
    all_in_this_process = engine == "pixels" and not config.overlap
    if ENGINES[engine].worker_megabytes is not None and not all_in_this_process:
        # Nobody has looked yet what "auto" comes to; when the environments are made, it is known, and this is asked again.
        maybe_on_gpu = device == "auto" or device.startswith("cuda")
        return 0.0 if maybe_on_gpu and engine != "pixels" else ENGINES[engine].worker_megabytes or 0.0
    if engine not in ON_CPU:
        return 0.0
    return UNMEASURED_MEGABYTES.get(task.suite, 20.0) if task.megabytes is None else task.megabytes


def must_evaluate_apart(task: Any, config: EnvConfig) -> bool:
    """True if no second environment can be made beside the one that trains."""
    known = find_task(task)
    return known is not None and ENGINES[choose_engine(known, config)].evaluate_apart


def _registered_with_gymnasium(task: str, options: Options) -> VecEnv:
    import gymnasium

    from flashsac.sims.adapters.gymnasium import make_gymnasium

    env_id = task.split(":", 1)[1]
    package, _, name = env_id.rpartition(":")
    try:
        if package:
            _import(package)  # it registers its environments when it is imported
        gymnasium.spec(name)
    except ModuleNotFoundError as error:
        raise UnknownTask(
            f"{task}: there is no module '{error.name}', neither installed nor in {Path.cwd()}. Install it, or run from its directory."
        ) from error
    except gymnasium.error.Error as error:
        near = difflib.get_close_matches(name, list(gymnasium.registry), n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join('gym:' + name for name in near)}?" if near else ""
        advice = (
            f"{package} was imported and does not register it"
            if package
            else f"If a package registers it: gym:package:{name}"
        )
        raise UnknownTask(
            f"Gymnasium knows no environment '{name}'.{hint} {advice}. Or name a function that makes it: module:function."
        ) from error
    try:
        return make_gymnasium(
            env_id,
            options.num_envs,
            max_episode_steps=options.max_episode_steps,
            render=options.render,
            frame_stack=options.frame_stack,
        )
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingExtra(f"{task}: {error}") from error


def _import(module: str) -> ModuleType:
    """Also one in the current directory: `flashsac train my_module:make_env` in the folder of my_module.py."""
    if importlib.util.find_spec(module.split(".")[0]) is None:
        sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(module)


def _import_factory(task: str) -> Callable[[], Any]:
    module_name, _, function = task.partition(":")
    try:
        module = _import(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.split(".")[0]:
            raise
        raise UnknownTask(
            f"{unknown_task(task)} If '{module_name}' is a module of your own: it was not found from {Path.cwd()}; run from its "
            "directory, or set PYTHONPATH."
        ) from error
    if not hasattr(module, function):
        raise UnknownTask(f"module '{module_name}' has no function '{function}' that makes an environment.")
    return getattr(module, function)


def _users_own(source: Any, config: EnvConfig, *, name: str | None = None, render: bool = False) -> VecEnv:
    from gymnasium.vector import VectorEnv

    from flashsac.sims.adapters.gymnasium import from_factory, with_arguments
    from flashsac.sims.adapters.rsl_rl import RslRlVecEnv, speaks_rsl_rl
    from flashsac.sims.vector.sequential import starting_with
    from flashsac.types import EnvSpec

    name = name or str(getattr(source, "__name__", type(source).__name__))
    make = None
    if callable(source):
        known = {"num_envs": config.num_envs, "max_episode_steps": config.max_episode_steps}
        make = with_arguments(source, known | {"render_mode": "rgb_array" if render else None}, name)
    first = source if make is None else make()
    if isinstance(first, VectorEnv):
        raise UnsupportedSpace(
            f"{name} is a gymnasium.vector.VectorEnv. Hand over a function that makes one single environment instead (lambda: "
            "gymnasium.make(...)) and say how many with --env.num-envs N; the trainer steps them together itself."
        )
    if speaks_rsl_rl(first):
        return RslRlVecEnv(first)
    if isinstance(getattr(first, "spec", None), EnvSpec):
        return first  # many environments already, by our own contract
    if make is None and config.num_envs != 1:
        raise FlashSACError(
            f"an environment object is one environment, but {config.num_envs} are asked for. "
            "Hand over a function that makes one instead, or set num_envs=1."
        )
    factory = (lambda: first) if make is None else starting_with(first, make)
    limit = config.max_episode_steps
    if limit is not None:
        from gymnasium.wrappers import TimeLimit

        unlimited, factory = factory, lambda: TimeLimit(unlimited(), limit)
    return from_factory(factory, config.num_envs, name=name, frame_stack=config.frame_stack)


def environments_in(task: Any) -> int:
    """How many environments an object already holds."""
    if isinstance(task, str) or callable(task):
        return 1
    from flashsac.types import EnvSpec

    own = getattr(task, "spec", None)
    if isinstance(own, EnvSpec):
        return own.num_envs
    return task.num_envs if is_only_one(task) else 1


def is_only_one(task: Any) -> bool:
    """True for an object of which there can be no second: rsl_rl's environments, simulator and all, in use by training."""
    if isinstance(task, str) or callable(task):
        return False
    from flashsac.sims.adapters.rsl_rl import speaks_rsl_rl

    return speaks_rsl_rl(task)


def more_like(task: Any) -> Any:
    """A source of further environments of the same kind, for evaluation; an environment object is copied."""
    if isinstance(task, str) or callable(task):
        return task
    try:
        copy.deepcopy(task)
    except Exception as error:  # whatever a simulator's C++ parts say to being copied
        raise FlashSACError(
            f"evaluation needs environments of its own, but this {type(task).__name__} cannot be copied ({error}). Hand over a "
            "function that makes one, or turn evaluation off: eval=dict(every=0)."
        ) from error
    return lambda: copy.deepcopy(task)
