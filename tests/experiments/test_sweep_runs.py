"""Sweeps that really run: killed, stopped, driven twice, and still every run happens once."""

from __future__ import annotations

import csv
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
from pathlib import Path

import filelock
import psutil
import pytest

from flashsac.experiments.launchers.local import LocalLauncher
from flashsac.experiments.search import JOURNAL, LOCK, last_score
from flashsac.experiments.sweep_file import read_sweep
from flashsac.experiments.trial import Trial, is_finished
from flashsac.runs.metrics import TIMINGS
from tests.helpers import PATIENCE, checkpoint_steps, cli, command, environment, wait_until

pytestmark = pytest.mark.slow

SETTINGS = """
steps = 600
video = false
compile = "off"
precision = "fp32"
log_every = 50
checkpoint_every = 50
agent.batch_size = 16
agent.warmup = 100
agent.critic_width = 8
agent.actor_width = 8
agent.updates_per_transition = 0.25
env.num_envs = 2
eval.every = 300
eval.episodes = 2
"""
VARIANTS = """
[variants.low]
agent.target_std = 0.05
[variants.plain]
[variants.scalar]
agent.value = "scalar"
"""
LAUNCHERS = {
    "local": (),
    "ray": ("--launcher", "ray"),
    "slurm": ("--launcher", "slurm", "--slurm", "cluster=local", "timeout_min=600"),
}


class SweepOfTests:
    """A sweep of short runs in a folder of its own, with everything to look at it from outside."""

    def __init__(self, folder: Path, tasks: list[str], seeds: int = 1, variants: str = VARIANTS):
        self.folder, self.out = folder, folder / "out"
        self.hangs = folder / "hangs"
        """While this file exists, the environment Hangs does not move."""
        self.file = folder / "sweep.toml"
        names = ", ".join(f'"{task}"' for task in tasks)
        text = f'tasks = [{names}]\nseeds = {seeds}\npreset = "laptop"\n[settings]{SETTINGS}{variants}'
        self.file.write_text(text)
        self.trials = read_sweep(self.file).trials(self.out)

    def arguments(self, *more: str) -> list[str]:
        return ["sweep", str(self.file), "--out", str(self.out), "--jobs", "2", *more]

    def environment(self) -> dict[str, str]:
        return environment(HANGS=str(self.hangs))

    def start(self, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command(*self.arguments(*more)),
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *more: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return cli(*self.arguments(*more), cwd=self.folder, check=check, HANGS=str(self.hangs))

    def workers(self) -> list[psutil.Process]:
        """The processes of trials, whoever started them."""
        found = []
        for process in psutil.process_iter():
            try:
                if "flashsac.cli.trial" in process.cmdline() and process.cwd() == str(self.folder):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def wait_for_a_trial(self) -> None:
        """Wait until one that hangs on request has a checkpoint, and is not finished."""
        assert wait_until(
            lambda: any(
                0 < max(checkpoint_steps(t.run), default=0) < 300
                for t in self.trials
                if "Hangs" in t.task and t.run.exists()
            )
        )

    def hang(self) -> None:
        """Wait until a trial has a checkpoint, and hangs in a step after it."""
        assert wait_until(lambda: any(trial.run.exists() and checkpoint_steps(trial.run) for trial in self.trials))
        self.hangs.touch()
        assert wait_until(self.hangs.with_name("reached").exists)

    def begun(self, trial: Trial) -> list[str]:
        """The commands that its processes have run, in their order."""
        return re.findall(r"^\$ flashsac (train|resume)", Path(trial.log).read_text(), re.MULTILINE)


def metrics(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="") as file:
        return [{key: value for key, value in row.items() if key not in TIMINGS} for row in csv.DictReader(file)]


def run_alone(trial: Trial, out: Path) -> Path:
    """The same run, by its command, without a sweep."""
    arguments = trial.command()
    arguments[arguments.index("--run-dir") + 1] = str(out)
    cli(*arguments, HANGS=str(out.parent / "hangs"))
    return out


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(timeout=PATIENCE)
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_killed_driver_and_killed_worker_change_nothing(tmp_path, launcher):
    """kill -9 of a worker, then of the driver; started again, every run is finished once, as if left alone."""
    seeds = 2 if launcher == "local" else 1
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:Hangs", "tests.toy_envs:make_point"], seeds)
    assert len(sweep.trials) == 6 * seeds
    driver = sweep.start(*LAUNCHERS[launcher])
    sweep.wait_for_a_trial()
    sweep.hangs.touch()
    first = sweep.workers()
    first[0].kill()
    # The driver starts it, or another trial, in its place.
    assert wait_until(lambda: len(sweep.workers()) == 2 and first[0].pid not in [p.pid for p in sweep.workers()])
    kill(driver)
    assert any(not is_finished(trial) for trial in sweep.trials)
    sweep.hangs.unlink()
    output = sweep.run(*LAUNCHERS[launcher]).stdout
    assert f"{6 * seeds} trials: {6 * seeds} finished" in output
    assert not sweep.workers()
    for trial in sweep.trials:
        assert is_finished(trial)
        assert [row["step"] for row in metrics(trial.run)] == [str(step) for step in range(50, 601, 50)]
    again = [trial for trial in sweep.trials if len(sweep.begun(trial)) > 1]
    assert again
    assert any("resume" in sweep.begun(trial) for trial in again)
    for trial in again:
        assert metrics(trial.run) == metrics(
            run_alone(trial, tmp_path / "alone" / Path(trial.path).relative_to(sweep.out))
        )


def test_workers_save_and_end_when_their_driver_is_killed(tmp_path):
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:Hangs"], variants="")
    driver = sweep.start()
    sweep.wait_for_a_trial()
    sweep.hangs.touch()
    workers = sweep.workers()
    kill(driver)
    sweep.hangs.unlink()
    assert not psutil.wait_procs(workers, timeout=PATIENCE)[1]
    (trial,) = sweep.trials
    assert "saved at step" in Path(trial.log).read_text() or is_finished(trial)


LONG = "[variants.long]\nsteps = 10_000_000\n"
"""It does not end before it is stopped."""


def test_a_trial_that_is_told_to_stop_twice_saves(tmp_path, monkeypatch):
    """A service manager tells every process, and the driver tells its trials."""
    monkeypatch.chdir(tmp_path)
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:Hangs"], variants=LONG)
    for name, value in sweep.environment().items():
        monkeypatch.setenv(name, value)
    (trial,) = sweep.trials
    log = Path(trial.log)
    job = LocalLauncher(gpus=[]).start(trial)
    sweep.hang()
    job.stop()
    assert wait_until(lambda: "stopping: saving a checkpoint" in log.read_text())
    job.stop()
    sweep.hangs.unlink()
    assert wait_until(lambda: job.poll() is not None)
    assert job.poll() == 130, log.read_text()
    assert "saved at step" in log.read_text()


def test_a_trial_that_is_told_to_stop_and_then_loses_its_driver_saves(tmp_path):
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:Hangs"], variants=LONG)
    log = Path(sweep.trials[0].log)
    driver = sweep.start()
    sweep.hang()
    workers = sweep.workers()
    os.kill(driver.pid, signal.SIGINT)
    assert wait_until(lambda: "stopping: saving a checkpoint" in log.read_text())
    kill(driver)
    assert wait_until(lambda: "whoever started this trial is gone" in log.read_text() or not sweep.workers())
    sweep.hangs.unlink()
    assert not psutil.wait_procs(workers, timeout=PATIENCE)[1]
    assert "saved at step" in log.read_text()


def test_ctrl_c_waits_for_a_trial_whose_job_submitit_kills(tmp_path):
    """Its local executor kills a job a second after Ctrl-C. The trial goes on until it has saved, and so does the
    driver."""
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:Hangs"], variants=LONG)
    log = Path(sweep.trials[0].log)
    driver = sweep.start(*LAUNCHERS["slurm"])
    sweep.hang()
    os.kill(driver.pid, signal.SIGINT)
    assert wait_until(lambda: "whoever started this trial is gone" in log.read_text() or not sweep.workers())
    sweep.hangs.unlink()
    output, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 130, output
    assert not sweep.workers()
    assert "saved at step" in log.read_text()


def test_two_drivers_on_one_sweep_run_nothing_twice(tmp_path):
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:make_point"], seeds=2)
    drivers = [sweep.start(), sweep.start()]
    outputs = [driver.communicate(timeout=PATIENCE)[0] for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0], outputs
    for output in outputs:
        assert "6 trials: 6 finished" in output
    assert [sweep.begun(trial) for trial in sweep.trials] == [["train"]] * 6


def test_ctrl_c_saves_checkpoints_and_says_how_to_go_on(tmp_path):
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:Hangs"], seeds=2)
    driver = sweep.start()
    sweep.wait_for_a_trial()
    sweep.hangs.touch()
    os.kill(driver.pid, signal.SIGINT)
    sweep.hangs.unlink()
    output, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 130, output
    assert f"to go on:\n  flashsac sweep {sweep.file}" in output
    assert "save a checkpoint first" in output
    assert not sweep.workers()
    begun = [trial for trial in sweep.trials if trial.run.exists() and checkpoint_steps(trial.run)]
    assert begun
    sweep.run()
    assert all(map(is_finished, sweep.trials))
    (first, *_) = begun
    assert metrics(first.run) == metrics(run_alone(first, tmp_path / "alone"))


def test_failures_are_shown_retried_and_do_not_hold_up_the_others(tmp_path):
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:make_nan", "tests.toy_envs:make_point"], variants="")
    done = sweep.run(check=False)
    assert done.returncode == 1
    broken, good = sweep.trials
    assert re.search(r"\n  \| .*NaN", done.stdout)  # its last lines
    assert done.stdout.count("it is tried again") == 1
    assert f"failed: {broken.name}" in done.stdout
    assert is_finished(good)
    assert len(sweep.begun(broken)) == 2
    assert sweep.run("--retries", "0", check=False).stdout.count("it is tried again") == 0
    assert sweep.begun(good) == ["train"]


def test_a_run_with_other_settings_is_refused_by_their_names(tmp_path):
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:make_point"], variants="")
    sweep.run()
    before = metrics(sweep.trials[0].run)
    done = sweep.run("--set", "agent.batch-size=17", "agent.critic-width=9", check=False)
    assert done.returncode == 1
    assert "agent.batch_size is 16, not 17; agent.critic_width is 8, not 9" in done.stderr
    assert metrics(sweep.trials[0].run) == before
    done = sweep.run("--set", "log-every=60", "video=true")  # what a run learns does not depend on these
    assert "1 trials: 1 finished" in done.stdout
    assert sweep.run("--dry-run").stdout.startswith(
        "finished    tests.toy_envs:make_point flashsac seed 0  600/600 steps"
    )


def test_a_search_goes_on_where_it_was_killed(tmp_path):
    space = '[search]\ntrials = 3\nagent.learning_rate = "1e-5..1e-3:log"\nagent.value = ["scalar", "categorical"]\n'
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:Hangs"], seeds=2, variants=space)
    trials = lambda: sorted((sweep.out / "tests.toy_envs-Hangs").glob("search-*/seed-*"))
    driver = sweep.start()
    assert wait_until(lambda: any(checkpoint_steps(run) for run in trials()))
    sweep.hangs.touch()
    kill(driver)
    sweep.hangs.unlink()
    output = sweep.run().stdout
    assert [path.relative_to(path.parents[1]).as_posix() for path in trials()] == [
        f"search-000{number}/seed-{seed}" for number in range(3) for seed in range(2)
    ]
    scores = {}
    for number in range(3):
        runs = [path for path in trials() if path.parent.name == f"search-000{number}"]
        last = [float([row["eval_return"] for row in metrics(run) if row["eval_return"]][-1]) for run in runs]
        scores[f"search-000{number}"] = sum(last) / 2
        assert f"search-000{number}: score {sum(last) / 2:.4g}" in output
    best = max(scores, key=lambda name: scores[name])
    assert f"best of 3: {best}, score {scores[best]:.4g}" in output
    again = sweep.run().stdout
    assert f"best of 3: {best}" in again
    assert len(trials()) == 6


def test_a_trial_that_another_driver_is_about_to_choose_is_waited_for(tmp_path):
    """Optuna begins a trial, and adds its settings one by one."""
    optuna = pytest.importorskip("optuna")
    space = '[search]\ntrials = 1\nagent.learning_rate = "1e-5..1e-3:log"\n'
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:make_point"], variants=space)
    sweep.out.mkdir()
    journal = optuna.storages.journal.JournalFileBackend(str(sweep.out / JOURNAL))
    storage = optuna.storages.JournalStorage(journal)
    study = optuna.create_study(storage=storage, study_name="search", direction="maximize")
    with filelock.FileLock(sweep.out / LOCK):
        begun = study.ask()
        driver = sweep.start()
        assert driver.stdout is not None
        assert any("waiting for another driver" in line for line in driver.stdout)
        rate = begun.suggest_float("agent.learning_rate", 1e-5, 1e-3, log=True)
    output, _ = driver.communicate(timeout=PATIENCE)
    assert driver.returncode == 0, output
    (found,) = study.trials
    assert found.state is optuna.trial.TrialState.COMPLETE
    assert found.params == {"agent.learning_rate": rate}


def test_the_last_evaluation_is_the_score(tmp_path):
    (trial,) = SweepOfTests(tmp_path, ["tests.toy_envs:make_point"], variants="").trials
    assert last_score(trial) is None
    trial.run.mkdir(parents=True)
    (trial.run / "metrics.csv").write_text("step,eval_return\n1,5.0\n2,7.5\n3,\n")
    assert last_score(trial) == 7.5


def test_each_trial_gets_a_gpu_of_its_own(tmp_path, monkeypatch):
    """The devices are made up: nothing here can compute on them, so the runs stay on the CPU."""
    monkeypatch.chdir(tmp_path)
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:Hangs"])
    sweep.hangs.touch()
    for name, value in sweep.environment().items():
        monkeypatch.setenv(name, value)
    launcher = LocalLauncher(gpus=["3", "5"])
    assert launcher.slots == 2
    jobs = [launcher.start(trial) for trial in sweep.trials[:2]]
    given = sorted(worker.environ()["CUDA_VISIBLE_DEVICES"] for worker in sweep.workers())
    threads = {worker.environ()["OMP_NUM_THREADS"] for worker in sweep.workers()}
    for job in jobs:
        job.kill()
    assert given == ["3", "5"]
    assert threads == {"1"}
    assert not sweep.workers()


def test_ray_takes_the_address_of_a_cluster_that_runs(tmp_path, monkeypatch):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:make_point"], variants="")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}  # of this cluster alone
    for name, value in token.items():
        monkeypatch.setenv(name, value)
    start = f"start --head --block --num-cpus 1 --include-dashboard=false --disable-usage-stats --port {address[10:]}"
    with (tmp_path / "ray.log").open("wb") as log:
        cluster = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", *start.split()],
            env=sweep.environment(),
            stdout=log,
            stderr=log,
        )
    try:
        assert wait_until(lambda: "Ray runtime started" in (tmp_path / "ray.log").read_text())
        sweep.run("--launcher", "ray", "--ray-address", address)
        assert is_finished(sweep.trials[0])
        assert cluster.poll() is None  # it is not ours to end
    finally:
        cluster.terminate()
        cluster.wait(timeout=PATIENCE)


def test_a_baseline_is_a_variant_that_is_finished_once(tmp_path):
    sweep = SweepOfTests(tmp_path, ["tests.toy_envs:make_point"], variants='[variants.sac]\nalgorithm = "sac"\n')
    (trial,) = sweep.trials
    sweep.run()
    rows = metrics(trial.run)
    assert [row["step"] for row in rows if row["eval_return"]] == ["300", "600"], "evaluated as the others are"
    assert is_finished(trial)
    assert "1 trials: 1 finished" in sweep.run().stdout
    assert metrics(trial.run) == rows
