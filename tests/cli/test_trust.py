"""Nothing runs that the user did not name: no module that lies in the current directory, none that a run directory names."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import flashsac
from flashsac.errors import FlashSACError, UntrustedRun
from flashsac.training.compile import compiler_missing
from tests.helpers import PATIENCE, cli, environment, lose_newest_checkpoint, tiny_run

pytestmark = pytest.mark.slow

SPRUNG = "import pathlib\nwith pathlib.Path({marker!r}).open('a') as file:\n    print(__name__, file=file)\n"
SHADOWS = "safetensors mujoco numpy torch json struct pickle gymnasium dm_control imageio onnxruntime".split()
SHORT = (
    "--steps 600 --agent.warmup 100 --agent.batch-size 16 --agent.critic-width 8 --agent.actor-width 8 --env.num-envs 2 "
    "--eval.episodes 2 --preset laptop"
).split()
VISION = (
    "--steps 30 --agent.warmup 20 --agent.critic-width 8 --agent.actor-width 8 --compile off --eval.every 20 --eval.episodes 1 "
    "--env.num-envs 2 --env.max-episode-steps 5"
).split()


@pytest.fixture
def traps(tmp_path) -> Path:
    """A folder of modules that write into a file, `sprung`, when they are imported: by their names, or as a plug-in."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    trap = SPRUNG.format(marker=str(folder / "sprung"))
    for name in (*SHADOWS, "trap", "plug_in"):
        (folder / f"{name}.py").write_text(trap)
    plug_in = folder / "plug_in-1.0.dist-info"
    plug_in.mkdir()
    (plug_in / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-in\nVersion: 1.0\n")
    (plug_in / "entry_points.txt").write_text("[flashsac.simulators]\nplug_in = plug_in:SIMULATOR\n")
    return folder


def none_sprung(folder: Path) -> bool:
    file = folder / "sprung"
    assert not file.exists(), f"imported from the current directory: {file.read_text().split()}"
    return True


@pytest.fixture
def flashsac_in(tmp_path):
    """The command as pip installs it: a script, so that its own folder comes first in the path, not the current directory."""
    script = tmp_path / "bin" / "flashsac"
    script.parent.mkdir()
    script.write_text("import sys\nfrom flashsac.cli.main import main\nsys.exit(main())\n")

    def run(folder: Path, *arguments: str, **env: str) -> str:
        done = subprocess.run(
            [sys.executable, script, *arguments],
            cwd=folder,
            env=environment(**env),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert none_sprung(folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_no_command_imports_what_lies_in_the_current_directory(traps, flashsac_in):
    flashsac_in(traps, "list")
    flashsac_in(traps, "train", "mujoco:HalfCheetah-v4", *SHORT, "--compile", "off", "--run-dir", "run")
    flashsac_in(traps, "eval", "run", "--episodes", "1")
    flashsac_in(traps, "play", "run/checkpoints/best.safetensors", "--out", "it.mp4", "--seconds", "0.2")
    flashsac_in(traps, "export", "run", "--observations", "64")
    flashsac_in(traps, "report", "run", "--out", "curves")


def test_neither_workers_nor_the_evaluation_process_do(traps, flashsac_in):
    pytest.importorskip("dm_control")
    flashsac_in(traps, "train", "dmc-vision:cartpole-balance", *VISION, "--run-dir", "run")


@pytest.mark.skipif(compiler_missing() is not None, reason="nothing is compiled here")
def test_nor_does_what_torch_starts_in_order_to_compile(traps, tmp_path, flashsac_in):
    cache = tmp_path / "cache"
    quick = (*SHORT, "--steps", "104", "--eval.every", "0", "--no-video", "--run-dir", "run")
    flashsac_in(traps, "train", "gym:Pendulum-v1", *quick, TORCHINDUCTOR_CACHE_DIR=str(cache))
    assert any(cache.rglob("*")), "it was compiled"


def test_python_m_drops_the_current_directory(traps):
    """As early as it can: before that, Python itself has imported `struct` from there."""
    (traps / "struct.py").unlink()
    cli("train", "gym:Pendulum-v1", *SHORT, "--compile", "off", "--no-video", "--run-dir", "run", cwd=traps)
    assert none_sprung(traps)


def test_a_module_in_the_current_directory_is_found_once_it_is_named(traps, flashsac_in):
    """With all its neighbours, and still it hides nothing that is installed."""
    (traps / "helper.py").write_text("ID = 'Pendulum-v1'\n")
    (traps / "mine.py").write_text(
        "import gymnasium, helper\n"
        "make_env = lambda render_mode=None: gymnasium.make(helper.ID, render_mode=render_mode)\n"
        "gymnasium.register('Mine-v0', entry_point=make_env)\n"
    )
    shorter = ("--steps", "200", "--compile", "off", "--eval.every", "100")
    for task, run in (("mine:make_env", "run"), ("gym:mine:Mine-v0", "by-id")):
        said = flashsac_in(traps, "train", task, *SHORT, *shorter, "--run-dir", run)
        assert f"flashsac play {run} --task {task}" in said
        assert (traps / run / "videos" / "final.mp4").exists()
        assert f"{task}: return" in flashsac_in(traps, "eval", run, "--task", task, "--episodes", "1")


@pytest.fixture(params=["trap:make_env", "gym:trap:Trap-v0"])
def gift(request, tmp_path) -> tuple[Path, str]:
    """A run whose task is a module, with another module of that name beside it now; and the task."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    (folder / "trap.py").write_text(
        "import gymnasium\n"
        "make_env = lambda: gymnasium.make('Pendulum-v1')\n"
        "gymnasium.register('Trap-v0', entry_point=make_env)\n"
    )
    short = ("--compile", "off", "--no-video", "--checkpoint-every", "200", "--run-dir", "gift")
    cli("train", request.param, *SHORT, *short, cwd=folder)
    lose_newest_checkpoint(folder / "gift")  # or there were nothing left to resume
    (folder / "trap.py").write_text(SPRUNG.format(marker=str(folder / "sprung")))
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    return folder, request.param


def test_a_run_does_not_choose_what_is_imported(gift, monkeypatch):
    traps, task = gift
    for command in ("eval", "play", "resume", "export"):
        done = cli(command, "gift", cwd=traps, check=False)
        assert done.returncode == 1
        assert f"the module 'trap' is imported ({traps / 'trap.py'})" in done.stderr
        assert f"  flashsac {command} gift --task {task}\n" in done.stderr
        assert "--trust-run" in done.stderr
        assert "Traceback" not in done.stderr
    cli("report", "gift", "--out", "curves", cwd=traps)
    monkeypatch.chdir(traps)
    for function in (flashsac.evaluate, flashsac.play, flashsac.resume):
        with pytest.raises(UntrustedRun, match="trust_run=True"):
            function("gift")
    assert none_sprung(traps)
    for allowed in (("--task", task), ("--trust-run",)):
        cli("eval", "gift", *allowed, cwd=traps, check=False)
        assert (traps / "sprung").read_text().split() == ["trap"]
        (traps / "sprung").unlink()


def test_a_run_of_ones_own_module_goes_on_once_it_is_allowed(tmp_path):
    task = "tests.toy_envs:make_point"
    run = tiny_run(tmp_path / "run", task=task, checkpoint_every=200)
    assert len(flashsac.evaluate(run, trust_run=True, episodes=2).returns) == 2
    assert len(flashsac.evaluate(run, task, episodes=2).returns) == 2
    for allowed in (("--task", task), ("--trust-run",)):
        lose_newest_checkpoint(run)
        assert "trained 600 steps" in cli("resume", str(run), *allowed).stdout
    assert flashsac.resume(run, quiet=True).was_finished, "nothing is made, so nothing is asked"
    lose_newest_checkpoint(run)
    with pytest.raises(FlashSACError, match="the task of a run is fixed"):
        flashsac.resume(run, "gym:Pendulum-v1", quiet=True)
