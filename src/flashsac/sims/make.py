"""Environments for whatever can be trained on: a task's name, a function that makes environments, or an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError
from flashsac.sims.capacity import check_memory
from flashsac.sims.catalog import check_task, find_task, is_gymnasium_id, suites
from flashsac.sims.registry import choose_simulator, with_options
from flashsac.sims.simulator import EnvRequest, Simulator, Task
from flashsac.sims.user_env import from_gymnasium_id, from_source, import_factory
from flashsac.system.children import children_on_safe_path

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv


def make_env(
    task: str | Callable[[], Any] | Any, config: EnvConfig | None = None, *, render: bool = False, device: str = "cpu"
) -> VecEnv:
    """Environments for a task name, for a factory (of one or of many), or for an object that is an environment.

    Without a config it makes one environment.
    """
    from flashsac.sims.vector.views import apply_views

    config = config or EnvConfig(num_envs=1)
    if not isinstance(task, str):
        name = str(getattr(task, "__name__", type(task).__name__))
        return apply_views(from_source(task, config, name, render=render), config, name)
    check_task(task)
    request = EnvRequest.of(config, device, render=render)
    if known := find_task(task):
        env = _simulate(known, choose_simulator(known, config), request)
    elif is_gymnasium_id(task):
        env = from_gymnasium_id(task, request)
    else:
        env = from_source(import_factory(task), config, task, render=render)
    return apply_views(env, config, task)


def _simulate(task: Task, simulator: Simulator, request: EnvRequest) -> VecEnv:
    check_memory(task, simulator, request)
    if request.simulator_options and not simulator.takes_options:
        raise FlashSACError(
            f"--env.options are for {' and '.join(with_options())}, but {task.full_name} runs on {simulator.name}."
        )
    with children_on_safe_path():
        env = simulator.make(task, request)
    spec = suites()[task.suite].annotate_spec(env.spec, task)
    if spec is not env.spec:
        env.spec = spec
    return env


def must_evaluate_apart(task: Any, config: EnvConfig) -> bool:
    """True if the task's simulator allows no second environment beside the one that trains."""
    known = find_task(task)
    return known is not None and choose_simulator(known, config).evaluate_apart
