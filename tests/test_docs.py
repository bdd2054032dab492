"""The documents' commands and Python run as written, only shorter; links, flags and excerpts are true."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from flashsac.config.schema import AgentConfig, EnvConfig, EvalConfig, ReplayConfig
from tests.helpers import PATIENCE, ROOT, blocks, cli, environment, named_blocks

pytestmark = pytest.mark.slow

SHORT = (
    "--steps 600 --agent.warmup 100 --agent.batch-size 16 --agent.critic-width 8 --agent.actor-width 8 --compile off "
    "--env.num-envs 2 --eval.episodes 2 --no-video"
).split()
EXTRA = {
    "train": SHORT,
    "play": ["--seconds", "1"],
    "export": ["--observations", "100"],
    "deploy": "--seconds 0.2 --tilt 1.5 --overtravel 0.5".split(),
    "bench": "--seconds 0.1 --compile off --preset laptop --precision fp32".split(),
}


def commands(document: str = "README.md") -> list[list[str]]:
    whole = [block.replace("\\\n", " ") for block in blocks("bash", document)]
    lines = [line.partition("#")[0].strip() for block in whole for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("flashsac ")]


def test_commands(tmp_path):
    (tmp_path / "my_module.py").write_text("import gymnasium\nmake_env = lambda: gymnasium.make('Pendulum-v1')\n")
    seen = set()
    for arguments in commands():
        seen.add(arguments[0])
        extra = EXTRA.get(arguments[0], [])
        cli(*arguments, *extra, cwd=tmp_path)
    assert {"train", "resume", "eval", "play", "report", "list", "bench", "export", "deploy"} <= seen


def test_commands_from_images(tmp_path):
    short = "--steps 30 --agent.warmup 20 --agent.critic-width 8 --agent.actor-width 8 --compile off --eval.every 0 --no-video"
    trained = [arguments for arguments in commands("docs/vision.md") if arguments[0] == "train"]
    assert len(trained) == 2
    for arguments in trained:
        cli(*arguments, *short.split(), cwd=tmp_path)


def test_commands_of_the_way_to_the_robot(tmp_path):
    """A short --env.num-envs comes last and wins; the robots of the page are real ones."""
    for arguments in commands("docs/sim-to-real.md"):
        cli(*arguments, *EXTRA[arguments[0]], cwd=tmp_path)
    assert (tmp_path / "runs" / "g1.onnx").exists()


def test_commands_of_the_dog_that_walks(tmp_path):
    train, judge = commands("docs/simulators/playground.md")
    cli(*train, *SHORT, cwd=tmp_path)
    assert "playground:Go1JoystickFlatTerrain: return" in cli(*judge, cwd=tmp_path).stdout, "as it stands"


def test_commands_to_the_robot(tmp_path):
    seen = []
    for arguments in commands("docs/deploy.md"):
        shorter = ["2" if argument == "20" else argument for argument in arguments]
        cli(*shorter, *EXTRA[arguments[0]], cwd=tmp_path)
        seen.append(arguments[0])
    assert seen == ["train", "export", "deploy", "deploy"]
    assert (tmp_path / "runs" / "walk.mp4").stat().st_size > 1000


def test_ten_lines_of_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    short = code.replace(
        "steps=20_000", "steps=600, compile='off', agent=dict(warmup=100, batch_size=16), video=False, quiet=True"
    )
    assert short != code
    names: dict = {}
    exec(compile(short, "README.md", "exec"), names)
    assert names["action"].shape == (1,)
    assert abs(names["action"][0]) <= 2.0, "Pendulum's own bounds"
    assert Path("pendulum.safetensors").exists()


def test_make_targets_of_the_documents_exist():
    makefile = (ROOT / "Makefile").read_text()
    shown = [*blocks("bash"), *blocks("shell", "docs/index.md")]
    for target in re.findall(r"^make (\w+)", "\n".join(shown), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_simulator_of_the_docs_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = named_blocks("docs/add-a-simulator.md")["hover.py"]
    assert len([line for line in code.splitlines() if line.strip()]) < 65
    short = code.replace(
        "steps=400_000,\n        agent=dict(updates_per_transition=0.01)",
        "steps=60_000, agent=dict(updates_per_transition=0.01, critic_width=32, actor_width=16), "
        "compile='off', quiet=True, eval=dict(every=30_000)",
    )
    assert short != code
    names: dict = {"__name__": "__main__"}
    exec(compile(short, "add-a-simulator.md", "exec"), names)
    assert names["result"].step == 60_000
    assert names["result"].best > 0, "better than falling"


def test_the_map_names_only_what_is_there():
    text = (ROOT / "docs" / "where-to-change-what.md").read_text()
    named = {path for path in re.findall(r"`([\w/.-]+)`", text) if "/" in path and not path.startswith("src/")}
    assert len(named) > 60
    for path in named:
        assert (ROOT / path).exists() or (ROOT / "src" / "flashsac" / path).exists(), path


ALGORITHM = sorted((ROOT / "docs" / "algorithm").glob("*.md"))
PAGES = [
    "docs/getting-started.md",
    "docs/faq.md",
    *sorted(f"docs/tutorials/{p.name}" for p in (ROOT / "docs" / "tutorials").glob("*.md")),
]
SHORT_TRAINING = """
import runpy, sys
import flashsac
train = flashsac.train
def short(task, **settings):
    agent = settings.pop("agent", {}) | dict(warmup=100, batch_size=16, critic_width=8, actor_width=8)
    fixed = dict(steps=600, compile="off", video=False, eval=dict(episodes=2), agent=agent)
    if "env" in settings:
        fixed["env"] = settings["env"] | dict(num_envs=2)
    return train(task, **settings | fixed)
flashsac.train = short
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
        "arguments = ['2' if argument == '20' else argument for argument in sys.argv[1:]]\n"
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
    known = {"agent": AgentConfig, "env": EnvConfig, "replay": ReplayConfig, "eval": EvalConfig}
    named = re.findall(r"--(agent|env|replay|eval)\.([a-z-]+)", page.read_text())
    for part, flag in named:
        fields = {field.name.replace("_", "-") for field in dataclasses.fields(known[part])}
        assert flag in fields or flag.removeprefix("no-") in fields, f"--{part}.{flag}"
