"""The site's pages are true: their commands and files run, only shorter; their excerpts and flags are in the source."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from flashsac.config.schema import AgentConfig, DiagnosticsConfig, EnvConfig, EvalConfig, ReplayConfig
from tests.helpers import PATIENCE, ROOT, blocks, environment, named_blocks
from tests.test_docs import EXTRA

ALGORITHM = sorted((ROOT / "docs" / "algorithm").glob("*.md"))
PAGES = [
    "docs/getting-started.md",
    "docs/faq.md",
    "docs/experiments/scores.md",
    "docs/experiments/diagnostics.md",
    *sorted(f"docs/tutorials/{p.name}" for p in (ROOT / "docs" / "tutorials").glob("*.md")),
]
SHORT_TRAINING = """
import runpy, sys
import flashsac
train, resume = flashsac.train, flashsac.resume
def short(task, **settings):
    agent = settings.pop("agent", {}) | dict(warmup=100, batch_size=16, critic_width=8, actor_width=8)
    fixed = dict(steps=600, compile="off", video=False, eval=dict(episodes=2), agent=agent)
    if "env" in settings:
        fixed["env"] = settings["env"] | dict(num_envs=2)
    return train(task, **settings | fixed)
flashsac.train = short
flashsac.resume = lambda *runs, **settings: resume(*runs, **settings | ({'steps': 800} if 'steps' in settings else {}))
sys.path.insert(0, "")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a file of a page, with every training in it made short."""


def write_command(folder: Path, name: str, code: str) -> None:
    """Put a command into `folder` that runs Python code."""
    (folder / f"run_{name}.py").write_text(code)
    (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder}/run_{name}.py" "$@"\n')
    (folder / name).chmod(0o755)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_as_written(page, tmp_path):
    """Every file and every bash block, one after the other, only shorter."""
    commands_dir, work = tmp_path / "bin", tmp_path / "work"
    commands_dir.mkdir()
    work.mkdir()
    write_command(commands_dir, "python", SHORT_TRAINING)
    write_command(
        commands_dir,
        "flashsac",
        f"import sys\nfrom flashsac.cli.main import main\nextra = {EXTRA!r}\n"
        "arguments = [{'20': '2', '30k': '800'}.get(argument, argument) for argument in sys.argv[1:]]\n"
        "describing = '--describe' in arguments\n"
        "sys.exit(main(arguments + ([] if describing else extra.get(arguments[0], []))))\n",
    )
    for name, content in named_blocks(page).items():
        (work / name).write_text(content)
    assert len(named_blocks(page)) == len(blocks("python", page)), (
        "every Python block is a file, and says its name first"
    )
    script = "set -e\n" + "\n".join(blocks("bash", page))
    assert script.count("flashsac") or script.count("python ")
    path = f"{commands_dir}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", script], cwd=work, env=environment(PATH=path), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr


def without_comments(code: str) -> str:
    """The code alone: no comments, no blank lines, no indentation that all lines share."""
    lines = [re.sub(r"\s*#.*$", "", line).rstrip() for line in code.splitlines()]
    return textwrap.dedent("\n".join(line for line in lines if line))


@pytest.mark.parametrize("page", ALGORITHM, ids=lambda page: page.stem)
def test_excerpts_of_the_algorithm_are_in_the_source(page):
    excerpts = re.findall(r"```python\n# (src/\S+\.py), (\w+)\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(excerpts) == page.read_text().count("```python"), "every excerpt names its file and function"
    assert excerpts or page.stem == "index"
    for file, name, excerpt in excerpts:
        source = (ROOT / file).read_text()
        assert re.search(rf"^ *(def|class) {name}\b", source, re.MULTILINE), f"{file} has no {name}"
        wanted = without_comments(excerpt).splitlines()
        found = [line.strip() for line in without_comments(source).splitlines()]
        stripped = [line.strip() for line in wanted]
        starts = (i for i, line in enumerate(found) if line == stripped[0])
        assert any(found[i : i + len(stripped)] == stripped for i in starts), f"{file}, {name}: the excerpt has changed"


@pytest.mark.parametrize("page", [*ALGORITHM, *(ROOT / name for name in PAGES)], ids=lambda page: page.stem)
def test_flags_of_a_page_exist(page):
    """Every flag of `flashsac train` that a page names, switches of booleans included."""
    known = {
        "agent": AgentConfig,
        "env": EnvConfig,
        "replay": ReplayConfig,
        "eval": EvalConfig,
        "diagnostics": DiagnosticsConfig,
    }
    named = re.findall(r"--(agent|env|replay|eval|diagnostics)\.([a-z-]+)", page.read_text())
    for part, flag in named:
        fields = {field.name.replace("_", "-") for field in dataclasses.fields(known[part])}
        assert flag in fields or flag.removeprefix("no-") in fields, f"--{part}.{flag}"


def test_make_targets_of_the_front_page_exist():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^make (\w+)", "\n".join(blocks("shell", "docs/index.md")), re.MULTILINE)
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
