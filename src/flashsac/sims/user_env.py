"""Users' own environments: objects, functions that make them, module:function, and ids that Gymnasium knows
(gym:ID)."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError, MissingExtra, UnsupportedSpace
from flashsac.sims.catalog import find_task, is_gymnasium_id
from flashsac.sims.registry import with_options
from flashsac.sims.simulator import EnvRequest
from flashsac.sims.user_names import check_registered, is_dotted, no_function, no_module, own_module_missing

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv


def check_settings(task: Any, config: EnvConfig) -> None:
    """Refuse settings that only tasks known by name have: a choice of engines, and options of theirs."""
    if find_task(task):
        return
    by_id = is_gymnasium_id(task)
    if config.options:
        whose = "Gymnasium's." if by_id else "your own: set what you want in the function that makes it."
        raise FlashSACError(
            f"--env.options are for tasks on {' or '.join(with_options())}; this environment is {whose}"
        )
    if config.engine != "auto" and not (by_id and config.engine == "gymnasium"):
        raise FlashSACError(
            f"--env.engine {config.engine}: this environment comes without a choice of engines. Leave it out."
        )


def from_gymnasium_id(task: str, request: EnvRequest) -> VecEnv:
    """Environments for gym:ID, or for gym:package:ID, where importing the package registers the id."""
    import gymnasium

    from flashsac.sims.envs.gymnasium import make_gymnasium

    env_id = task.split(":", 1)[1]
    package, _, name = env_id.rpartition(":")
    if package:
        try:
            _import(package)
        except ModuleNotFoundError as error:
            raise no_module(task, error.name) from error
    check_registered(name, package)
    try:
        return make_gymnasium(
            env_id,
            request.num_envs,
            max_episode_steps=request.max_episode_steps,
            render=request.render,
            frame_stack=request.frame_stack,
        )
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingExtra(f"{task}: {error}") from error


def import_factory(task: str) -> Callable[[], Any]:
    """The function that module:function names."""
    module_name, _, function = task.partition(":")
    if not is_dotted(module_name):
        raise own_module_missing(task, module_name)
    try:
        module = _import(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.split(".")[0]:
            raise
        raise own_module_missing(task, module_name) from error
    if not hasattr(module, function):
        raise no_function(module_name, function, [name for name, value in vars(module).items() if callable(value)])
    return getattr(module, function)


def _import(module: str) -> ModuleType:
    """Import a module, also from the current directory: `flashsac train my_module:make_env` in the folder of
    my_module.py.

    That directory comes last in the path, and only once a module in it was named: nothing there hides an installed
    package.
    """
    if importlib.util.find_spec(module.split(".")[0]) is None:
        sys.path.append(str(Path.cwd()))
    return importlib.import_module(module)


def from_source(source: Any, config: EnvConfig, name: str, *, render: bool = False) -> VecEnv:
    """Environments from a function that makes them, or from an environment object; `name` is for messages."""
    from gymnasium.vector import VectorEnv

    from flashsac.sims.envs.gymnasium import from_factory, with_arguments
    from flashsac.sims.envs.rsl_rl import RslRlVecEnv, speaks_rsl_rl
    from flashsac.sims.vector.sequential import starting_with
    from flashsac.types import EnvSpec

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
    """True for an object of which there can be no second: rsl_rl's environments, simulator and all, in use by
    training."""
    if isinstance(task, str) or callable(task):
        return False
    from flashsac.sims.envs.rsl_rl import speaks_rsl_rl

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
