"""Signals end a run in order, and what nobody reads does not end it at all."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

import psutil
import pytest

from flashsac.training.compile import compiler_missing
from flashsac.training.interrupts import graceful_stop
from tests.helpers import PATIENCE, checkpoint_steps, command, environment, wait_until

pytestmark = pytest.mark.slow

QUICK = (
    "train gym:Pendulum-v1 --preset laptop --steps 300 --agent.warmup 100 --agent.batch-size 16 --agent.critic-width 8 "
    "--agent.actor-width 8 --compile off --precision fp32 --env.num-envs 2 --eval.every 100 --eval.episodes 2 --no-video --run-dir"
).split()


@contextlib.contextmanager
def started_with(on_hangup):
    """As a shell starts us, or nohup; the tests themselves may run under either."""
    before = signal.signal(signal.SIGHUP, on_hangup)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_terminal_or_a_service_manager_stops_in_order_however_often_it_says_so(number):
    stops: list[int] = []
    with started_with(signal.SIG_DFL):
        with graceful_stop(lambda: stops.append(1)):
            for again in (number, number, signal.SIGTERM, signal.SIGHUP):
                os.kill(os.getpid(), again)
            assert stops == [1]
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_a_second_ctrl_c_ends_at_once():
    stops: list[int] = []
    with graceful_stop(lambda: stops.append(1)):
        os.kill(os.getpid(), signal.SIGINT)
        assert stops == [1]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.skipif(compiler_missing() is not None, reason="no C++ compiler")
def test_ctrl_c_while_compiling_saves_first(tmp_path):
    """A terminal sends it to the C++ compiler too, which dies of it."""
    arguments = [*QUICK, str(tmp_path / "run"), "--compile", "on", "--steps", "100000", "--eval.every", "0"]
    nothing_compiled = environment(TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "cache"), PYTHONUNBUFFERED="1")
    process = subprocess.Popen(
        command(*arguments),
        env=nothing_compiled,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    me = psutil.Process(process.pid)

    def compiles() -> bool:
        """A part of the update, that is; before it torch tries out what this processor can do."""
        with contextlib.suppress(psutil.Error):
            return any(".main.cpp" in " ".join(child.cmdline()) for child in me.children(recursive=True))
        return False

    assert wait_until(compiles)
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors.decode()[-2000:]
    assert b"Go on with" in out
    assert b"Traceback" not in errors
    assert checkpoint_steps(tmp_path / "run")[0] >= 100


def test_nohup_is_respected():
    with started_with(signal.SIG_IGN), graceful_stop(lambda: pytest.fail("stopped")):
        os.kill(os.getpid(), signal.SIGHUP)


def test_a_run_whose_progress_nobody_reads_any_more_goes_on(tmp_path):
    process = subprocess.Popen(
        command(*QUICK, str(tmp_path / "run")), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()  # as `| head -1` does
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert checkpoint_steps(tmp_path / "run")[0] == 300


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_run_whose_progress_goes_to_a_full_disk_goes_on(tmp_path):
    with open("/dev/full", "w") as full:
        subprocess.run(command(*QUICK, str(tmp_path / "run")), env=environment(), stdout=full, timeout=PATIENCE)
    assert checkpoint_steps(tmp_path / "run")[0] == 300
