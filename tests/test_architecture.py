"""The house rules: one line says who may import whom, nothing runs in circles, files and functions stay readable."""

from __future__ import annotations

import ast
import graphlib
import importlib.util
import tomllib
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "flashsac"

IMPORTS = tomllib.loads((SRC.parents[1] / "pyproject.toml").read_text())["tool"]["flashsac"]["imports"]
"""The rule; pyproject.toml says how to read it."""
DEPLOY_MAY_IMPORT = {*IMPORTS["deploy"], "deploy"}

RANK = {room: rank for rank, group in enumerate(IMPORTS["rule"].split(" → ")) for room in group.split(", ")}


def used(source: str, package: str) -> set[str]:
    """By full name: what a file of that package imports, what it looks up by a dot, which functions it calls by their bare name."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                parents = package.split(".")
                above = parents[: len(parents) + 1 - node.level] if node.level else []
                base = [*above, *([node.module] if node.module else [])]
                names |= {".".join([*base, alias.name]) for alias in node.names}
            case ast.Attribute(ast.Name(module), name):
                names.add(f"{module}.{name}")
            case ast.Call(ast.Name(function)):
                names.add(function)
    return names


def uses(file: Path) -> set[str]:
    return used(file.read_text(), ".".join(["flashsac", *file.relative_to(SRC).parts[:-1]]))


def room_of(file: Path) -> str:
    return file.relative_to(SRC).parts[0].removesuffix(".py")


def test_every_way_to_import_is_seen():
    source = """
import flashsac.a, torch
from flashsac import b
from flashsac.c import d
def late():
    from . import e
    from .f import g
    from .. import h
    from ..i import j
    torch.distributed.barrier(open("k"))
"""
    absolute = {"flashsac.a", "torch", "flashsac.b", "flashsac.c.d", "torch.distributed", "open"}
    relative = {"flashsac.core.e", "flashsac.core.f.g", "flashsac.h", "flashsac.i.j"}
    assert used(source, "flashsac.core") == absolute | relative


def may_import(room: str, other: str) -> bool:
    if room == "deploy":
        return other in DEPLOY_MAY_IMPORT
    if other == "deploy":
        return RANK[room] > RANK["robots"]
    if RANK[room] == RANK[other]:
        return room == other or RANK[room] == 0
    return RANK[other] < RANK[room]


def test_imports_follow_the_rule():
    for file in SRC.rglob("*.py"):
        room = room_of(file)
        if room == "__init__":
            continue
        assert room == "deploy" or room in RANK, f"{room} is no room of the rule: give it a place"
        for name in uses(file):
            top, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if top != "flashsac" or not (other == "deploy" or other in RANK):
                continue
            assert may_import(room, other), f"{file.relative_to(SRC)} imports {name}: {room} may not know {other}"


def test_the_map_shows_the_rule():
    text = (SRC.parents[1] / "docs" / "where-to-change-what.md").read_text()
    assert IMPORTS["rule"].removesuffix(" → __main__") in text


def test_no_module_imports_itself_in_a_circle():
    """Imports inside functions count too: they hide a circle, they do not open it."""
    files = {".".join(["flashsac", *file.relative_to(SRC).with_suffix("").parts]): file for file in SRC.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): file for name, file in files.items()}

    def module_of(name: str) -> str | None:
        while name and name not in modules:
            name = name.rpartition(".")[0]
        return name or None

    graph = {
        module: {other for name in uses(file) if (other := module_of(name)) and other != module}
        for module, file in modules.items()
    }
    # A package's __init__ is only its docstring, the package's own lazy front door apart, which nobody inside uses.
    assert not any("flashsac" in others for module, others in graph.items() if module != "flashsac")
    try:
        tuple(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        raise AssertionError(f"these import each other: {' → '.join(error.args[1])}") from None


def test_robots_and_deploy_need_no_torch():
    for room in ("robots", "deploy", "system", "config"):
        for file in (SRC / room).rglob("*.py"):
            assert not {name for name in uses(file) if name.split(".")[0] == "torch"}, f"{file.name} imports torch"


def test_the_core_knows_no_simulator_file_or_log():
    forbidden = {
        "gymnasium",
        "envpool",
        "dm_control",
        "mujoco",
        "safetensors",
        "tensorboard",
        "rich",
        "tyro",
        "os",
        "pathlib",
        "shutil",
        "tempfile",
        "open",
        "logging",
        "print",
        "torch.distributed",
    }
    for file in (SRC / "core").rglob("*.py"):
        for name in uses(file):
            parts = name.split(".")
            found = {".".join(parts[:count]) for count in (1, 2)} & forbidden
            assert not found, f"{file.name} uses {name}"


def test_files_and_functions_stay_readable():
    long = {
        str(file.relative_to(SRC)): n for file in SRC.rglob("*.py") if (n := len(file.read_text().splitlines())) > 360
    }
    assert not long, f"split these files: {long}"
    functions = {
        f"{file.relative_to(SRC)}:{node.name}": lines
        for file in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and (lines := (node.end_lineno or 0) - node.lineno + 1) > LONGEST_FUNCTION
    }
    assert not functions, f"split these functions: {functions}"


LONGEST_FUNCTION = 60


def test_the_simulators_of_the_main_environment_are_there():
    """Tests of a simulator that is missing are skipped; these five must never be."""
    wanted = ("envpool", "gymnasium", "mujoco", "dm_control", "gymnasium_robotics")
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    assert not missing, f"{missing}: run `make setup`"
