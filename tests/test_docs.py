"""README's commands and Python run as written, only shorter."""

from __future__ import annotations

import re
import shlex

import pytest
from safetensors.torch import load_file

import flashsac
from flashsac.runs.layout import checkpoint_folders
from tests.helpers import ROOT, StopAt, blocks, checkpoint_steps, cli, from_file, named_blocks, tiny_run

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
    "sweep": (
        "--seeds 1 --set steps=300 agent.warmup=100 agent.batch-size=16 agent.critic-width=8 agent.actor-width=8 "
        "compile=off env.num-envs=2 eval.episodes=2 video=off"
    ).split(),
    "baseline": "--minutes 0.02 --eval.episodes 2 --no-video".split(),
    "watch": ["--help"],  # it would serve until it is stopped
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
    assert {
        "train",
        "resume",
        "eval",
        "play",
        "report",
        "list",
        "bench",
        "export",
        "deploy",
        "sweep",
        "baseline",
    } <= seen


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
        said = cli(*shorter, *EXTRA[arguments[0]], cwd=tmp_path).stdout
        seen.append(arguments[0])
        if arguments[0] == "export":
            assert "--video runs/g1-mujoco.mp4" in said, "`play` may have written runs/g1.mp4"
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


@pytest.mark.parametrize(
    "document", sorted(path.relative_to(ROOT) for path in ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
)
def test_links_and_files_exist(document):
    text = (ROOT / document).read_text()
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", text)
    targets += re.findall(r"`((?:tests|src|docs|benchmarks|scripts)/[\w./-]+)`", text)
    for target in targets:
        base = (ROOT / document).parent
        assert (base / target).exists() or (ROOT / target).exists(), f"{document} points to {target}"


def test_make_targets_of_the_documents_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", "\n".join(blocks("bash")), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("file", ["hover.py", "hover_numpy.py"])
def test_the_simulators_of_the_docs_train(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    code = named_blocks("docs/add-a-simulator.md")[file]
    assert len([line for line in code.splitlines() if line.strip()]) < 70
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


def test_the_numpy_simulator_of_the_docs_resumes_exactly(tmp_path):
    names: dict = {"__name__": "hover_numpy"}
    exec(compile(named_blocks("docs/add-a-simulator.md")["hover_numpy.py"], "add-a-simulator.md", "exec"), names)
    alone = tiny_run(tmp_path / "alone", names["Hover"])
    stopped = tiny_run(tmp_path / "stopped", names["Hover"], hooks=[StopAt(300)])
    assert max(checkpoint_steps(stopped)) < 600
    flashsac.resume(stopped, names["Hover"], quiet=True)
    one, other = (
        load_file(checkpoint_folders(run / "checkpoints")[0] / "policy.safetensors") for run in (alone, stopped)
    )
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one)


def test_the_map_names_only_what_is_there():
    text = (ROOT / "docs" / "where-to-change-what.md").read_text()
    named = {path for path in re.findall(r"`([\w/.-]+)`", text) if "/" in path and not path.startswith("src/")}
    assert len(named) > 60
    for path in named:
        assert (ROOT / path).exists() or (ROOT / "src" / "flashsac" / path).exists(), path


def test_the_results_come_from_the_csvs():
    text = (ROOT / "README.md").read_text()
    assert from_file("scripts/update_results.py").render(text) == text, "run python scripts/update_results.py"
