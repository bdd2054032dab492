"""The command line as a user meets it, bad input included."""

from __future__ import annotations

import collections
import shutil
import subprocess
import sys
import time

import pytest

import flashsac
from flashsac.cli.main import main
from flashsac.errors import BadSimulation, FlashSACError, NotEnoughMemory, RunDirectoryError
from flashsac.runs.directory import Run, read_config
from flashsac.runs.metrics import read_metrics
from flashsac.training.hooks import Hooks
from tests import toy_envs
from tests.helpers import TINY, checkpoint_steps, cli, edit_config, named_blocks, tiny_run

pytestmark = pytest.mark.slow

QUICK = (
    "--preset laptop --steps 400 --agent.warmup 100 --agent.batch-size 16 --agent.critic-width 8 --agent.actor-width 8 "
    "--compile off --env.num-envs 2 --eval.episodes 2 --no-video"
).split()


def fails(*arguments: str, **options) -> str:
    done = cli(*arguments, check=False, **options)
    assert done.returncode not in (0, None)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


def test_help_and_import_answer_at_once():
    for arguments in (["-m", "flashsac", "--help"], ["-c", "import flashsac"]):
        best = min(_seconds([sys.executable, *arguments]) for _ in range(3))
        assert best < 5.0  # a busy machine takes its time
    assert "flashsac resume" in cli("--help").stdout


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def test_import_is_lazy():
    code = "import sys, flashsac.cli.main; assert not {'torch', 'numpy', 'tyro', 'gymnasium'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_robots_computer_has_little_installed():
    """Of all the packages that training needs, onnxruntime, numpy and tyro: deploy starts, other commands say what they need."""
    missing = (
        "torch psutil safetensors filelock gymnasium rich tensorboard matplotlib imageio mujoco envpool onnx".split()
    )
    code = (
        "import sys\nclass Missing:\n    def find_spec(name, *_):\n"
        f"        if name.split('.')[0] in {missing!r}: raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Missing)\n"
        "from flashsac.cli.main import main\n"
        "print(main(sys.argv[1:]))"
    )
    for arguments, complaint in (
        (["deploy", "no_such_file.onnx"], "no_such_file.onnx"),
        (["export", "runs/g1"], "`flashsac export` needs torch, which is not installed"),
        (["list"], "`flashsac list` needs rich, which is not installed"),
    ):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
        assert done.stdout.strip() == "1", done.stderr
        assert complaint in done.stderr
        assert "Traceback" not in done.stderr


def test_train_eval_play_report_list(tmp_path):
    run = tmp_path / "run"
    out = cli("train", "gym:Pendulum-v1", *QUICK, "--run-dir", str(run)).stdout
    assert "replay: " in out
    assert f"flashsac play {run}" in out
    for name in ("config.json", "metrics.csv", "tensorboard", "checkpoints"):
        assert (run / name).exists(), name
    assert any((run / "tensorboard").iterdir())
    task, config = read_config(run)
    assert task == "gym:Pendulum-v1"
    assert config.agent.batch_size == 16
    assert config.precision in ("fp32", "bf16", "fp16")

    assert "gym:Pendulum-v1: return" in cli("eval", str(run), "--episodes", "2").stdout
    report = cli("report", str(run), "--out", str(tmp_path / "curves")).stdout
    assert (tmp_path / "curves" / "gym-Pendulum-v1.png").stat().st_size > 10_000
    assert ".csv" in report


def test_list_shows_dims_and_engines():
    out = cli("list", "playground").stdout
    line = next(line for line in out.splitlines() if "G1JoystickFlatTerrain" in line)
    assert line.split() == "playground:G1JoystickFlatTerrain 103 (216) 29 40 return 0.97 parallel envpool, jax".split()


def test_list_has_the_papers_tables():
    table, _, legend = cli("list", "--paper").stdout.partition("\n\n")
    header, *rows = table.splitlines()
    assert "Random and normal: " in legend
    assert header.split() == "task observation action random normal metric discount preset engines".split()
    assert len(rows) == 72
    counts = collections.Counter(row.split(":")[0].strip() for row in rows)
    assert counts == {
        "isaaclab": 12,
        "playground": 4,
        "maniskill": 6,
        "genesis": 3,
        "mujoco": 5,
        "dmc": 10,
        "humanoidbench": 14,
        "myosuite": 10,
        "dmc-vision": 8,
    }


def test_list_begins_with_an_overview_and_searches():
    lines = cli("list").stdout.splitlines()
    assert len(lines) < 30
    assert next(line for line in lines if line.split()[:1] == ["dmc-vision"]).split()[2] == "8", "tasks in the paper"
    found = cli("list", "halfcheetah").stdout
    assert "mujoco:HalfCheetah-v4" in found
    assert "dmc:" not in found


def test_list_says_how_to_install_the_rest(tmp_path):
    code = (
        "import importlib.util as u; real = u.find_spec; u.find_spec = lambda n, *a: None if n == 'envpool' else real(n, *a);"
        "from flashsac.cli.main import main; main(['list', 'playground'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'not installed: pip install "flashsac[envpool]"' in done.stdout


def test_train_by_module_and_function(tmp_path):
    (tmp_path / "my_module.py").write_text(
        "import gymnasium\ndef make_env():\n    return gymnasium.make('Pendulum-v1', max_episode_steps=50)\n"
    )
    said = cli("train", "my_module:make_env", *QUICK, "--run-dir", "run", cwd=tmp_path).stdout
    assert "my_module:make_env: 2 at a time\n" in said, "there is no choice of engines"
    assert "my_module:make_env: return" in cli("eval", "run", "--trust-run", "--episodes", "2", cwd=tmp_path).stdout
    finished = cli("resume", "run", cwd=tmp_path).stdout
    assert "flashsac resume run --steps 800 --task my_module:make_env\n" in finished, "the command works as it is shown"


def test_the_task_may_come_last_and_numbers_may_be_short(tmp_path):
    short = [*QUICK[:2], "--steps", "0.4k", *QUICK[4:], "--agent.warmup=1e2", "--run-dir", str(tmp_path / "run")]
    cli("train", *short, "gym:Pendulum-v1")
    assert read_config(tmp_path / "run")[1].steps == 400
    assert "It comes first" in fails("train", "--preset", "laptop")


def test_help_says_whose_defaults_it_shows():
    own = cli("train", "playground:G1JoystickFlatTerrain", "--help").stdout
    assert "preset parallel, which playground:G1JoystickFlatTerrain has without --preset" in " ".join(own.split())
    assert "--preset" in own
    assert "preset laptop, as chosen" in cli("train", "--preset", "laptop", "--help").stdout


def test_a_vectorised_simulator_of_ones_own_is_asked_for_as_many_as_were_wanted(tmp_path):
    code = named_blocks("docs/add-a-simulator.md")["hover.py"]
    (tmp_path / "hover.py").write_text(code.partition("if __name__")[0] + "def fixed():\n    return Hover(6)\n")
    out = cli("train", "hover:Hover", *QUICK, "--env.num-envs", "16", "--run-dir", "asked", cwd=tmp_path).stdout
    assert "decides by itself" not in out
    assert read_config(tmp_path / "asked")[1].env.num_envs == 16
    limit = ["--env.max-episode-steps", "7"]
    out = cli("train", "hover:fixed", *QUICK, *limit, "--run-dir", "fixed", cwd=tmp_path).stdout
    assert "num_envs is 6; --env.num-envs 2 does nothing" in out
    assert "max_episode_steps is 100; --env.max-episode-steps 7 does nothing" in out
    env = read_config(tmp_path / "fixed")[1].env
    assert (env.num_envs, env.max_episode_steps) == (6, 100)


def test_what_is_no_module(tmp_path):
    assert "name it as a module: imgenv:make" in fails("train", "imgenv.py:make", cwd=tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "reach.py").write_text("")
    assert "name the function in it that makes the environment: reach:function" in fails("train", "reach", cwd=tmp_path)
    (tmp_path / "empty_package.py").write_text("")
    error = fails("train", "gym:empty_package:Nothing-v0", *QUICK, cwd=tmp_path)
    assert "empty_package was imported and does not register it" in error
    assert "If a package registers it" not in error


def test_a_finished_run_says_so_and_only_an_evaluated_one_is_to_be_reported(tmp_path):
    arguments = [*QUICK, "--eval.every", "0", "--run-dir", "run"]
    arguments.remove("--no-video")
    (tmp_path / "mine.py").write_text("from tests.toy_envs import make_point\n")
    done = cli("train", "mine:make_point", *arguments, cwd=tmp_path)
    assert "drawing 10 s of video (--no-video to skip) ..." in done.stdout
    assert "draws no pictures" in done.stderr
    assert "flashsac eval run" in done.stdout
    assert "flashsac play run" not in done.stdout
    assert "flashsac report run" not in done.stdout
    assert "names no time limit" not in done.stdout, "nothing is evaluated"
    before = (tmp_path / "run" / "metrics.csv").read_bytes()
    again = cli("resume", "run", cwd=tmp_path).stdout
    assert "run is finished: step 400 of 400" in again
    assert "it had trained 400 steps" in again
    assert (tmp_path / "run" / "metrics.csv").read_bytes() == before


def test_unknown_task():
    assert "Did you mean mujoco:HalfCheetah-v4" in fails("train", "mujoco:HalfCheetha-v4")
    assert "there is no task" in fails("train", "no_such_module:make_env")


def test_discrete_actions(tmp_path):
    assert "needs a Box" in fails("train", "gym:CartPole-v1", *QUICK, "--run-dir", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists(), "a run that never began leaves no directory behind"


def test_unknown_command_and_missing_arguments():
    assert "no command 'trian'. Did you mean train?" in fails("trian")
    assert "flashsac resume" in cli("help").stdout
    assert cli("version").stdout == cli("--version").stdout
    assert "which task?" in fails("train")
    assert "which run?" in fails("eval")
    assert "which run? usage: flashsac report RUN ... --out DIR" in fails("report", "--out", "curves")
    assert "no preset 'huge'" in fails("train", "gym:Pendulum-v1", "--preset", "huge")


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--steps", "-5"), ("--agent.batch-size", "0"), ("--agent.discount", "1.0"), ("--env.num-envs", "0")],
)
def test_impossible_numbers(flag, value):
    assert flag in fails("train", "gym:Pendulum-v1", flag, value)


def test_bad_factories(tmp_path):
    (tmp_path / "my_envs.py").write_text("def needs(x):\n    pass\ndef wrong():\n    return 3\n")
    assert "without arguments" in fails("train", "my_envs:needs", cwd=tmp_path)
    assert "it returned int" in fails("train", "my_envs:wrong", cwd=tmp_path)


def test_small_questions(tmp_path):
    assert "Go on with an interrupted run" in cli("resume", "--help").stdout
    assert "there is no suite 'nope'" in fails("list", "nope")
    assert "the settings of a run are fixed" in fails("resume", str(tmp_path), "--seed", "3")
    assert "Missing value for argument '--preset'" in fails("train", "gym:Pendulum-v1", "--preset")
    assert "does not exist" in fails("eval", str(tmp_path / "missing.safetensors"))
    run = tiny_run(tmp_path / "run", steps=120)
    with pytest.raises(FlashSACError, match="at least 1"):
        flashsac.train(toy_envs.make_point, run_dir=str(run), **TINY | {"eval": dict(episodes=0)})


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            OSError(28, "No space left"),
            "error: [Errno 28] No space left. Is the disk full, or the directory not yours to write to?",
        ),
        (ConnectionResetError(104, "reset by peer"), "error: [Errno 104] reset by peer"),
        (KeyboardInterrupt(), "stopped at once"),
    ],
)
def test_what_ends_a_command_is_said_as_it_is(monkeypatch, capsys, error, said):
    def fail(arguments):
        raise error

    monkeypatch.setattr("flashsac.cli.eval.main", fail)
    assert main(["eval", "run"]) in (1, 130)
    assert capsys.readouterr().err == f"{said}\n"


def test_no_run_directory(tmp_path):
    assert "is no run directory" in fails("resume", str(tmp_path))
    assert "there is no policy" in fails("eval", str(tmp_path))


def test_existing_run_directory(tmp_path):
    run = tiny_run(tmp_path / "run", steps=120)
    with pytest.raises(RunDirectoryError, match="flashsac resume"):
        flashsac.train(toy_envs.make_point, run_dir=str(run), **TINY)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("precious")
    with pytest.raises(RunDirectoryError, match="not an empty directory"):
        flashsac.train(toy_envs.make_point, run_dir=str(tmp_path / "full"), **TINY)
    assert (tmp_path / "full" / "thesis.tex").exists()


def test_two_runs_on_one_directory(tmp_path):
    run = tiny_run(tmp_path / "run", steps=120)
    holder = Run.open(run)
    assert "another process is training" in fails("resume", str(run))
    holder.close()


def test_config_of_another_version(tmp_path):
    run = tiny_run(tmp_path / "run", steps=120)
    shutil.rmtree(run / "checkpoints")
    edit_config(run, '"seed"', '"unheard_of"')
    with pytest.raises(RunDirectoryError, match="another version"):
        flashsac.resume(run, toy_envs.make_point)


def test_too_many_nans_stop_the_run_after_a_checkpoint(tmp_path):
    run = tmp_path / "run"
    with pytest.raises(BadSimulation, match="held NaN or Inf"):
        tiny_run(run, task=toy_envs.make_nan, steps=4000, checkpoint_every=0)
    assert checkpoint_steps(run), "a checkpoint was saved first"


def test_rare_nans_are_dropped_counted_and_reported(tmp_path):
    run = tiny_run(tmp_path / "run", task=toy_envs.make_rarely_nan, steps=2000)
    last = read_metrics(run / "metrics.csv")[-1]
    assert 0 < last["invalid"] < 20


def test_too_little_memory(tmp_path):
    # Nine million million transitions fit in no computer.
    with pytest.raises(NotEnoughMemory, match="--replay.storage disk"):
        tiny_run(tmp_path / "run", steps=9 * 10**12, replay=dict(capacity=9 * 10**12, storage="ram"))
    with pytest.raises(NotEnoughMemory, match="for its checkpoints"):
        tiny_run(tmp_path / "run", steps=9 * 10**12, replay=dict(capacity=9 * 10**12, storage="disk"))


def test_replay_on_the_device_gives_the_same_run(tmp_path):
    runs = [tiny_run(tmp_path / kind, replay=dict(capacity=500, storage=kind)) for kind in ("ram", "device")]
    q = [[row.get("q") for row in read_metrics(run / "metrics.csv")] for run in runs]
    assert q[0] == q[1]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_replay_on_disk_gives_the_same_run_and_is_gone_afterwards(tmp_path, dtype):
    sizes = []

    class Sizes(Hooks):
        def after_save(self, trainer, checkpoint):
            files = checkpoint.parents[1].glob("replay-ring/*")
            sizes.append(sum(file.stat().st_size for file in files))

    settings = dict(hooks=[Sizes()], checkpoint_every=0)
    ram = tiny_run(tmp_path / "ram", replay=dict(capacity=500, obs_dtype=dtype), **settings)
    disk = tiny_run(tmp_path / "disk", replay=dict(capacity=500, storage="disk", obs_dtype=dtype), **settings)
    assert sizes[0] == 0
    assert sizes[1] > 500 * (2 * 2 + 2 * 4)
    assert not (disk / "replay-ring").exists()
    q = [[row.get("q") for row in read_metrics(run / "metrics.csv")] for run in (ram, disk)]
    assert q[0] == q[1]
    assert q[0][-1] is not None


def test_without_a_compiler_it_says_so_and_runs(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    flashsac.train(toy_envs.make_point, run_dir=str(tmp_path / "run"), **TINY | {"compile": "on"})
    assert "no C++ compiler" in capfd.readouterr().out


def test_custom_environments_must_be_handed_over_again(tmp_path):
    run = tiny_run(tmp_path / "run", steps=120)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(FlashSACError, match="from Python hand it over"):
        flashsac.resume(run)


def test_success_is_reported(tmp_path):
    run = tiny_run(tmp_path / "run")
    assert any("eval_success" in row for row in read_metrics(run / "metrics.csv"))
