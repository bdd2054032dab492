"""Names of users' own environments, module:function and gym:ID: what is wrong with one, and what it stands for."""

from __future__ import annotations

import ast
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flashsac.errors import UnknownTask
from flashsac.sims.catalog import check_task, find_task, is_gymnasium_id, suite_of, unknown_task
from flashsac.system.suggest import did_you_mean, nearest

_DYNAMIC = {"globals", "setattr", "exec", "__getattr__", "*"}
"""Names in a source that may give a module others than those it spells out."""


def check_own_task(task: str) -> None:
    """Raise UnknownTask for a task that cannot be made, as far as this shows without running a user's code."""
    check_task(task)
    if find_task(task):
        return
    module, _, function = task.partition(":")
    if is_gymnasium_id(task):
        package, _, name = function.rpartition(":")
        if not package:
            check_registered(name)
        elif _find(package) is None:
            raise no_module(task, package)
        return
    if not is_dotted(module) or (found := _find(module)) is None:
        raise own_module_missing(task, module)
    names = _names_in(found.origin)
    if names is not None and function not in names:
        raise no_function(module, function, _functions_in(found.origin))


def check_registered(name: str, package: str = "") -> None:
    """Raise UnknownTask unless Gymnasium knows the id. `package` has been imported to register it."""
    import gymnasium

    try:
        gymnasium.spec(name)
    except gymnasium.error.Error as error:
        near = " or ".join(f"gym:{known}" for known in nearest(name, gymnasium.registry))
        hint = f" Did you mean {near}?" if near else ""
        advice = (
            f"{package} was imported and does not register it"
            if package
            else f"If a package registers it: gym:package:{name}"
        )
        raise UnknownTask(
            f"Gymnasium knows no environment '{name}'.{hint} {advice}. Or name a function that makes it: module:function."
        ) from error


def no_module(task: str, module: str | None) -> UnknownTask:
    """The error for a package that should register an id."""
    return UnknownTask(
        f"{task}: there is no module '{module}', neither installed nor in {Path.cwd()}. Install it, or run from its directory."
    )


def own_module_missing(task: str, module: str) -> UnknownTask:
    """The error for module:function without such a module."""
    if not is_dotted(module):
        return unknown_task(task)
    return UnknownTask(
        f"{unknown_task(task)} If '{module}' is a module of your own: it was not found from {Path.cwd()}; run from its "
        "directory, or set PYTHONPATH."
    )


def no_function(module: str, function: str, known: Iterable[str]) -> UnknownTask:
    """The error for module:function without such a function."""
    return UnknownTask(
        f"module '{module}' ({file_of(module)}) has no function '{function}' that makes an environment."
        f"{did_you_mean(function, known)}"
    )


def is_dotted(module: str) -> bool:
    return all(part.isidentifier() for part in module.split("."))


def module_of(task: str) -> str | None:
    """The module that making the task imports: of module:function and gym:module:ID. None for the tasks of
    simulators."""
    if is_gymnasium_id(task):
        return task.partition(":")[2].rpartition(":")[0] or None
    return None if suite_of(task) is not None else task.partition(":")[0]


def name_of(task: Any) -> str | None:
    """The module:function that makes the same environments as a function; None where no other process finds it."""
    module, name = getattr(task, "__module__", None), getattr(task, "__qualname__", None)
    if not callable(task) or not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is task else None


def file_of(module: str) -> str:
    """The place that a module, or the package that it lies in, would be imported from. Nothing is imported."""
    found = _find(module.split(".")[0])
    if found is None:
        return "not found here"
    return found.origin or ", ".join(found.submodule_search_locations or ())


def _find(module: str) -> importlib.machinery.ModuleSpec | None:
    """What would be imported by this name, also from the current directory. Nothing is imported."""
    top, *parts = module.split(".")
    try:
        found = importlib.util.find_spec(top) or importlib.machinery.PathFinder.find_spec(top, [str(Path.cwd())])
    except ValueError:  # a module that was made in memory
        return None
    for i in range(len(parts)):
        if found is None or found.submodule_search_locations is None:
            return None
        name, places = ".".join([top, *parts[: i + 1]]), list(found.submodule_search_locations)
        found = importlib.machinery.PathFinder.find_spec(name, places)
    return found


def _names_in(file: str | None) -> set[str] | None:
    """Every name that a source gives to something; None if only running it tells what the module has."""
    tree = _parsed(file)
    if tree is None:
        return None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.split(".")[0])
    return None if names & _DYNAMIC else names


def _functions_in(file: str | None) -> list[str]:
    tree = _parsed(file)
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [] if tree is None else [node.name for node in tree.body if isinstance(node, kinds)]


def _parsed(file: str | None) -> ast.Module | None:
    if file is None or not file.endswith(".py"):
        return None
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
