"""Task names to simulators: "suite:task", or "module:function" for a user's own. Simulators are imported when one is made."""

from __future__ import annotations

import copy
import csv
import dataclasses
import difflib
import functools
import importlib
import importlib.resources
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from flashsac.config import EngineName, EnvConfig, PresetName
from flashsac.errors import FlashSACError, MissingExtra, UnknownTask
from flashsac.sims.base import VecEnv


@dataclasses.dataclass(frozen=True)
class Task:
    """One row of tasks.csv."""

    suite: str
    name: str
    obs: int
    critic_obs: int | None
    action: int
    engines: tuple[EngineName, ...]

    @property
    def full_name(self) -> str:
        return f"{self.suite}:{self.name}"


@dataclasses.dataclass(frozen=True)
class Engine:
    """A package that simulates tasks, and how it makes one."""

    module: str
    extra: str
    make: Callable[..., VecEnv]
    also: dict[str, str] = dataclasses.field(default_factory=dict)
    """Further modules it needs, by suite."""

    def installed(self, suite: str) -> bool:
        needed = [self.module] + ([self.also[suite]] if suite in self.also else [])
        return all(importlib.util.find_spec(module) is not None for module in needed)


@dataclasses.dataclass(frozen=True)
class Suite:
    """What the tasks of a suite have in common in the paper."""

    about: str
    preset: PresetName
    discount: float


SUITES: dict[str, Suite] = {
    "mujoco": Suite("Gymnasium's MuJoCo tasks", "single", 0.99),
    "dmc": Suite("DeepMind Control Suite, from state", "single", 0.99),
    "playground": Suite("MuJoCo Playground: humanoids, quadrupeds, hands", "parallel", 0.97),
    "gym": Suite("any environment registered with Gymnasium", "single", 0.99),
}


def _envpool(task: str, **options: Any) -> VecEnv:
    from flashsac.sims.envpool import EnvPoolVecEnv

    suite, name = task.split(":")
    env_id = name
    if suite == "dmc":
        # cartpole-balance_sparse is EnvPool's CartpoleBalanceSparse-v1
        env_id = "".join(part.capitalize() for part in name.replace("-", "_").split("_")) + "-v1"
    elif suite == "playground":
        env_id = f"MuJoCoPlayground/{name}-v1"
    return EnvPoolVecEnv(env_id, **options)


def _gymnasium(task: str, **options: Any) -> VecEnv:
    from flashsac.sims.gymnasium import make_gymnasium

    return make_gymnasium(task.split(":", 1)[1], **options)


def _dm_control(task: str, **options: Any) -> VecEnv:
    from flashsac.sims.dmc import make_dmc

    domain, name = task.split(":")[1].split("-")
    return make_dmc(domain, name, **options)


ENGINES: dict[EngineName, Engine] = {
    "envpool": Engine("envpool", "envpool", _envpool),
    "gymnasium": Engine("gymnasium", "mujoco", _gymnasium, also={"mujoco": "mujoco"}),
    "dm_control": Engine("dm_control", "dmc", _dm_control),
}


@functools.cache
def tasks() -> dict[str, Task]:
    """All tasks known by name, with their dimensions."""
    text = importlib.resources.files("flashsac.sims").joinpath("tasks.csv").read_text()
    rows = {}
    for row in csv.DictReader(text.splitlines()):
        critic_obs = int(row["critic_obs"]) if row["critic_obs"] else None
        engines = cast("tuple[EngineName, ...]", tuple(row["engines"].split("+")))
        task = Task(row["suite"], row["task"], int(row["obs"]), critic_obs, int(row["action"]), engines)
        rows[task.full_name] = task
    return rows


def install_line(extra: str) -> str:
    return f'pip install "flashsac[{extra}]"'


def suite_of(task: str) -> str | None:
    """The suite's name, or None for a user's own module:function."""
    prefix = task.split(":")[0]
    return prefix if prefix in SUITES else None


def make_env(task: str | Callable[[], Any] | Any, config: EnvConfig, *, render: bool = False) -> VecEnv:
    """Environments for a task name, a factory, or an environment object (one environment only)."""
    if not isinstance(task, str):
        return _users_own(task, config)
    suite = suite_of(task)
    if suite is None:
        return _users_own(_import_factory(task), config, name=task)
    options: dict[str, Any] = dict(num_envs=config.num_envs, max_episode_steps=config.max_episode_steps, render=render)
    known = tasks().get(task)
    if known is None and suite == "gym":
        return _registered_with_gymnasium(task, options)
    if known is None:
        raise unknown_task(task)
    return ENGINES[choose_engine(known, config)].make(task, **options)


def choose_engine(task: Task, config: EnvConfig) -> EngineName:
    """Which engine will simulate a task: the one asked for, or the best that is installed."""
    if config.engine != "auto":
        if config.engine not in task.engines:
            raise FlashSACError(
                f"{task.full_name} does not run on {config.engine}; it runs on {', '.join(task.engines)}."
            )
        order = [config.engine]
    else:
        # EnvPool is the fast one, but only the others can save their state; with one environment speed matters less.
        order = sorted(task.engines, key=lambda name: (name == "envpool") == (config.num_envs == 1))
    for name in order:
        if ENGINES[name].installed(task.suite):
            return name
    lines = " or ".join(install_line(ENGINES[name].extra) for name in order)
    raise MissingExtra(
        f"{task.full_name} needs a simulator that is not installed ({', '.join(order)}). Install it with: {lines}"
    )


def unknown_task(task: str) -> UnknownTask:
    """The error for a name that nothing matches, with the nearest that exist."""
    suite = suite_of(task)
    names = [name for name in tasks() if suite is None or name.startswith(f"{suite}:")]
    near = difflib.get_close_matches(task, names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return UnknownTask(f"there is no task '{task}'.{hint} `flashsac list` shows them all.")


def _registered_with_gymnasium(task: str, options: dict[str, Any]) -> VecEnv:
    import gymnasium

    env_id = task.split(":", 1)[1]
    package, _, name = env_id.rpartition(":")
    try:
        if package:
            importlib.import_module(package)  # it registers its environments when it is imported
        gymnasium.spec(name)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        near = difflib.get_close_matches(env_id, list(gymnasium.registry), n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join('gym:' + name for name in near)}?" if near else ""
        raise UnknownTask(
            f"Gymnasium knows no environment '{env_id}'.{hint} If a package of yours registers it, write "
            f"gym:package:{env_id}, or hand over a factory: flashsac train module:function."
        ) from error
    try:
        return _gymnasium(task, **options)
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingExtra(f"{task}: {error}") from error


def _import_factory(task: str) -> Callable[[], Any]:
    module_name, _, function = task.partition(":")
    if not function:
        raise unknown_task(task)
    if importlib.util.find_spec(module_name.split(".")[0]) is None:
        sys.path.insert(0, str(Path.cwd()))  # `flashsac train my_module:make_env` in the folder of my_module.py
    try:
        module = importlib.import_module(module_name)
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


def _users_own(source: Any, config: EnvConfig, name: str | None = None) -> VecEnv:
    from flashsac.sims.gymnasium import from_factory

    if not callable(source) and config.num_envs != 1:
        raise FlashSACError(
            f"an environment object is one environment, but {config.num_envs} are asked for. "
            "Hand over a function that makes one instead, or set num_envs=1."
        )
    make = source if callable(source) else lambda: source
    factory = make
    limit = config.max_episode_steps
    if limit is not None:
        from gymnasium.wrappers import TimeLimit

        factory = lambda: TimeLimit(make(), limit)
    return from_factory(factory, config.num_envs, name=name or str(getattr(source, "__name__", type(source).__name__)))


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
