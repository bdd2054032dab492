"""What there is to train on: the suites that simulators bring, and their tasks: ours in tasks.csv, others in their
plug-ins."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError, UnknownTask
from flashsac.sims.registry import simulators
from flashsac.sims.simulator import Suite, Task, read_tasks
from flashsac.system.suggest import did_you_mean

GYM = "gym"
"""The suite whose tasks are Gymnasium's ids. Those not in tasks.csv are users' own environments (user_env.py)."""


@functools.cache
def _our_tasks() -> tuple[Task, ...]:
    return read_tasks(importlib.resources.files("flashsac.sims").joinpath("tasks.csv").read_text())


@functools.cache
def suites() -> dict[str, Suite]:
    """All suites by name: ours in the order of tasks.csv, then those of other people's plug-ins."""
    found: dict[str, Suite] = {}
    brought_by: dict[str, str] = {}
    for simulator in simulators().values():
        for suite in simulator.suites:
            if suite.name in found:
                raise FlashSACError(
                    f"two simulators bring a suite called '{suite.name}': {brought_by[suite.name]} and {simulator.name}. "
                    "Uninstall the package of one of them."
                )
            found[suite.name], brought_by[suite.name] = suite, simulator.name
    ours = list(dict.fromkeys(task.suite for task in _our_tasks()))
    return {name: found[name] for name in (*ours, *sorted(found.keys() - set(ours)))}


@functools.cache
def tasks() -> dict[str, Task]:
    """All tasks known by name."""
    rows = list(_our_tasks())
    for suite in suites().values():
        rows += (dataclasses.replace(task, engines=task.engines or simulated_by(suite.name)) for task in suite.tasks)
    return {task.full_name: task for task in rows}


def simulated_by(suite: str) -> tuple[str, ...]:
    """Names of the simulators that have the suite."""
    return tuple(name for name, simulator in simulators().items() if suite in simulator.packages)


def find_task(task: Any) -> Task | None:
    """A task known by name, or one that its simulator must know; None for Gymnasium's ids, a user's own, and
    mistakes."""
    if not isinstance(task, str):
        return None
    if task in tasks():
        return tasks()[task]
    suite, name = suite_of(task), task.partition(":")[2]
    # Gymnasium imports what stands before a colon in its ids, and a name out of a policy file must not decide that.
    if suite is None or not suite.has_more or not name or ":" in name:
        return None
    return Task(suite.name, name, engines=simulated_by(suite.name))


def suite_of(task: Any) -> Suite | None:
    """The suite of a task's name, or None for a user's own environment."""
    return suites().get(task.split(":")[0]) if isinstance(task, str) else None


def is_gymnasium_id(task: Any) -> bool:
    """True for gym:ID and gym:package:ID, listed or not."""
    suite = suite_of(task)
    return suite is not None and suite.name == GYM


def check_task(task: str) -> None:
    """Raise UnknownTask for a name that nothing can match. A module of the user's own is not looked for yet."""
    suite, (module, _, function) = suite_of(task), task.partition(":")
    if suite is None and (module.endswith(".py") or "/" in module):
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        raise UnknownTask(f"'{module}' is a file; name it as a module: {dotted}:{function or 'function'}")
    if suite is None and ":" not in task and Path(f"{task.replace('.', '/')}.py").is_file():
        raise UnknownTask(f"'{task}' is a module; name the function in it that makes the environment: {task}:function")
    if ":" not in task or (suite is not None and not is_gymnasium_id(task) and find_task(task) is None):
        raise unknown_task(task)


def unknown_task(task: str, installed: Iterable[str] | None = None) -> UnknownTask:
    """The error for a name that nothing matches, with the nearest known ones. `installed`: the ids that the simulator
    itself has."""
    suite = suite_of(task)
    if suite is not None and installed is not None:
        hint = did_you_mean(task, [f"{suite.name}:{own_id}" for own_id in installed])
        return UnknownTask(
            f"{task}: the {suite.name} that is installed has no such task.{hint} `flashsac list {suite.name}` shows those we know of, "
            f"docs/simulators/{suite.name}.md the version that has them."
        )
    hint = did_you_mean(task, [name for name in tasks() if suite is None or name.startswith(f"{suite.name}:")])
    where = f"`flashsac list {suite.name}` shows them all" if suite else "`flashsac list` shows where tasks come from"
    return UnknownTask(f"there is no task '{task}'.{hint} {where}.")
