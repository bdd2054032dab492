"""The house rules: imports point downwards, files stay readable."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "flashsac"

# Each layer may import from those before it, and from itself.
LAYERS = [
    ["errors", "types", "config", "memory"],
    ["presets", "arguments", "options"],
    ["core"],
    ["robot"],
    ["sims"],
    ["settings"],
    ["compiler", "counters", "storage", "checkpoint", "best"],
    ["policy", "run"],
    ["evaluation", "evaluation_process", "logging", "video", "interrupts", "simulator_watch"],
    ["trained"],
    ["deploy"],
    ["trainer"],
    ["api"],
    ["mjlab_runner"],
    ["mjlab_tasks"],
    ["experiments"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


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


def test_imports_point_downwards():
    for file in SRC.rglob("*.py"):
        part = file.relative_to(SRC).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        assert part in RANK, f"{part} has no layer: give it one"
        for name in uses(file):
            top, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if top == "flashsac" and other in RANK:
                assert RANK[other] <= RANK[part], f"{file.name} imports {other}, which lies above it"


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
    for file in (SRC / "core").glob("*.py"):
        for name in uses(file):
            parts = name.split(".")
            found = {".".join(parts[:count]) for count in (1, 2)} & forbidden
            assert not found, f"{file.name} uses {name}"


def test_files_stay_readable():
    long = {
        str(file.relative_to(SRC)): n for file in SRC.rglob("*.py") if (n := len(file.read_text().splitlines())) > 360
    }
    assert not long, f"split these: {long}"


def test_the_simulators_of_the_main_environment_are_there():
    """Tests of a simulator that is missing are skipped; these five must never be."""
    wanted = ("envpool", "gymnasium", "mujoco", "dm_control", "gymnasium_robotics")
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    assert not missing, f"{missing}: run `make setup`"
