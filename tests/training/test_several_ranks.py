"""One run in several processes: killed, stopped, silent, started again with another number. Real processes, by torchrun."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from flashsac.cli.ranks import without_ranks
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.layout import checkpoint_folders
from flashsac.runs.metrics import read_metrics
from flashsac.training.trainer import merged
from tests.helpers import PATIENCE, checkpoint_steps, cli, command, environment, lose_newest_checkpoint, wait_until
from tests.training.test_resume import assert_equal_runs

PENDULUM = (
    "train gym:Pendulum-v1 --preset laptop --steps 960 --seed 7 --agent.warmup 120 --agent.batch-size 24 --agent.critic-width 16 "
    "--agent.actor-width 8 --eval.every 480 --eval.episodes 2 --checkpoint-every 96 --log-every 48 --no-video --compile off "
    "--precision fp32 --env.num-envs 6 --env.with-state"
).split()


def ranks_of(launcher: subprocess.Popen) -> dict[int, psutil.Process]:
    """The processes that torchrun has started, by their rank."""
    found = {}
    for child in psutil.Process(launcher.pid).children(recursive=True):
        try:
            if "flashsac" in child.cmdline() and (rank := child.environ().get("RANK")) is not None:
                found[int(rank)] = child
        except psutil.Error:
            continue
    return found


def start(*arguments: str, **variables: str) -> subprocess.Popen:
    return subprocess.Popen(
        command(*arguments), env=environment(**variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def state_at(run: Path, step: int) -> dict:
    store = CheckpointStore(run, "gym:Pendulum-v1")
    return store.read(store.folder / f"step-{step:012d}", replay=False).state


def test_rows_of_ranks_are_summed_where_they_count_and_averaged_elsewhere():
    rows = [{"step": 10, "episodes": 2, "q": 1.0, "return": 4.0}, {"step": 10, "episodes": 3, "q": 2.0}]
    assert merged(rows) == {"step": 10, "episodes": 5, "q": 1.5, "return": 4.0}


def test_only_the_option_ranks_is_taken_away():
    assert without_ranks(["T", "--ranks", "2", "--steps", "2", "--ranks=3"]) == ["T", "--steps", "2"]


@pytest.mark.slow
def test_killed_ranks_go_on_and_end_as_if_nothing_had_happened(tmp_path):
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    cli(*PENDULUM, "--ranks", "2", "--run-dir", str(alone))
    launcher = start(*PENDULUM, "--ranks", "2", "--run-dir", str(killed))
    rng = random.Random(0)
    for victim in (1, 0, 1):
        reached = checkpoint_steps(killed)[:1]
        assert wait_until(lambda: checkpoint_steps(killed)[:1] != reached or launcher.poll() is not None)  # noqa: B023
        time.sleep(rng.uniform(0.0, 0.3))
        assert wait_until(lambda: victim in ranks_of(launcher) or launcher.poll() is not None)  # noqa: B023
        if launcher.poll() is not None:
            break
        ranks_of(launcher)[victim].send_signal(signal.SIGKILL)
    output, _ = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 0, output
    assert "lost rank 1 on" in output
    assert_equal_runs(alone, killed)
    assert_equal_runs(alone / "ranks" / "1", killed / "ranks" / "1")


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(2, 1), (2, 3), (1, 2)])
def test_another_number_of_ranks_goes_on(tmp_path, before, after):
    """Schedules and counters are exact, and no transition is lost."""
    run = tmp_path / "run"
    cli(*PENDULUM, "--ranks", str(before), "--run-dir", str(run))
    lose_newest_checkpoint(run)
    step = checkpoint_steps(run)[0]
    saved = state_at(run, step)
    done = cli("resume", str(run), "--ranks", str(after))
    assert "Traceback" not in done.stderr, done.stderr
    assert f"resuming gym:Pendulum-v1 at step {step} of 960" in done.stdout
    ended = state_at(run, 960)
    assert ended.get("ranks", 1) == after
    envs = ended["spec"]["num_envs"]
    assert envs == 6 // after
    assert ended["agent"]["replay"]["head"] * 6 == 960
    assert ended["agent"]["replay"]["tail"] == saved["agent"]["replay"]["tail"]
    assert ended["agent"]["updates"] - saved["agent"]["updates"] == (960 - step) * 0.5
    rows = read_metrics(run / "metrics.csv")
    assert [row["step"] for row in rows] == list(range(48, 961, 48))


@pytest.mark.slow
def test_a_silent_rank_is_named_and_replaced(tmp_path):
    launcher = start(*PENDULUM, "--ranks", "2", "--run-dir", str(tmp_path / "run"), FLASHSAC_RANK_TIMEOUT="5")
    assert wait_until(lambda: bool(checkpoint_steps(tmp_path / "run")) or launcher.poll() is not None)
    ranks_of(launcher)[1].send_signal(signal.SIGSTOP)
    output, _ = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 0, output
    assert "rank 1 on" in output
    assert checkpoint_steps(tmp_path / "run")[0] == 960


@pytest.mark.slow
def test_ctrl_c_saves_all_ranks(tmp_path):
    run = tmp_path / "run"
    launcher = start(*PENDULUM, "--ranks", "2", "--run-dir", str(run))
    assert wait_until(lambda: bool(checkpoint_steps(run)) and checkpoint_steps(run)[0] > 0)
    launcher.send_signal(signal.SIGINT)
    output, _ = launcher.communicate(timeout=PATIENCE)
    assert launcher.returncode == 130, output
    newest = [checkpoint_folders(folder / "checkpoints")[0].name for folder in (run, run / "ranks" / "1")]
    assert newest[0] == newest[1]
    cli("resume", str(run), "--ranks", "2")
    assert checkpoint_steps(run)[0] == 960


@pytest.mark.slow
def test_what_cannot_be_shared_is_refused_at_once(tmp_path):
    for more, text in (
        (["--env.num-envs", "5"], "--env.num-envs 5 cannot be shared equally by 2 ranks"),
        (["--agent.batch-size", "25"], "--agent.batch-size 25 cannot be shared equally"),
        (["--diagnostics.every", "96"], "--diagnostics.every needs a run of one process"),
    ):
        done = cli(*PENDULUM, *more, "--ranks", "2", "--run-dir", str(tmp_path / "run"), check=False)
        assert done.returncode == 1
        assert done.stderr.count(text) == 1
    done = cli(*PENDULUM, "--ranks", "2", check=False)
    assert done.returncode == 2
    assert "--run-dir DIR" in done.stderr
