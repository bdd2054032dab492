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
    ["compiler", "counters", "storage", "checkpoint"],
    ["policy", "run"],
    ["evaluation", "evaluation_process", "logging", "video", "interrupts", "simulator_watch"],
    ["deploy"],
    ["trainer", "trained"],
    ["api"],
    ["mjlab_runner"],
    ["mjlab_tasks"],
    ["experiments"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def test_imports_point_downwards():
    for file in SRC.rglob("*.py"):
        part = file.relative_to(SRC).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        assert part in RANK, f"{part} has no layer: give it one"
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("flashsac"):
                base = node.module.split(".")[1:]
                names = [base[0]] if base else [alias.name for alias in node.names]
            for name in names:
                if name in RANK:
                    assert RANK[name] <= RANK[part], f"{file.name} imports {name}, which lies above it"


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
    }
    for file in (SRC / "core").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            assert not {module.split(".")[0] for module in modules} & forbidden, file


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
