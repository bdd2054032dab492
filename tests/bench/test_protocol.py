"""`flashsac bench --run`: the sums by hand, a real run measured, and runs that must not be measured."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil

import pytest

import flashsac
from flashsac.bench.protocol import measure_run
from flashsac.cli.bench import main
from flashsac.config.schema import TrainConfig
from flashsac.errors import FlashSACError, MissingExtra, RunDirectoryError, UntrustedRun
from flashsac.experiments.report import report
from flashsac.runs.directory import Run, read_config
from flashsac.runs.metrics import read_metrics
from flashsac.runs.wall_clock import WallClock, read_wall_clock
from tests.helpers import TINY, edit_config, tiny_run

MEASURED = WallClock(
    task="dmc:walker-walk",
    simulation_seconds_per_step=0.002,
    acting_seconds_per_step=0.001,
    update_seconds=0.03,
    steps=1000,
    updates=400,
    real_seconds=17.5,
    num_envs=4,
    precision="fp32",
    compiled=True,
    device="cpu",
    machine="a machine",
    measured_steps=100,
    measured_updates=40,
)


def test_the_protocol_sums_what_a_run_did():
    assert MEASURED.interaction_seconds == pytest.approx(1000 * 0.002)
    assert MEASURED.algorithm_seconds == pytest.approx(1000 * 0.001 + 400 * 0.03)
    assert MEASURED.protocol_seconds == pytest.approx(2 + 1 + 12)
    further = MEASURED.after({"step": 2000.0, "updates": 900.0, "seconds": 40.0})
    assert further.protocol_seconds == pytest.approx(4 + 2 + 27)
    assert further.real_seconds == 40.0


def test_the_file_is_read_as_it_was_written(tmp_path):
    assert read_wall_clock(tmp_path) is None
    MEASURED.write(tmp_path)
    assert read_wall_clock(tmp_path) == MEASURED
    content = json.loads((tmp_path / "wall_clock.json").read_text())
    assert content["protocol_seconds"] == pytest.approx(15)
    assert content.keys() == MEASURED.as_dict().keys()
    for damaged in ('{"task": 5}', "[1]", "{", json.dumps(content | {"update_seconds": "x"})):
        (tmp_path / "wall_clock.json").write_text(damaged)
        with pytest.raises(FlashSACError, match="Measure it again"):
            read_wall_clock(tmp_path)


@pytest.fixture(scope="module")
def pendulum_run(tmp_path_factory):
    return tiny_run(tmp_path_factory.mktemp("runs") / "run", "gym:Pendulum-v1")


@pytest.mark.slow
def test_a_run_is_measured_with_its_own_settings(pendulum_run, tmp_path, capsys):
    run = shutil.copytree(pendulum_run, tmp_path / "run")
    before = {file.name for file in run.iterdir()}
    assert main(["--run", str(run), "--seconds", "0.5"]) == 0
    assert {file.name for file in run.iterdir()} == before | {"wall_clock.json"}
    measured = read_wall_clock(run)
    last = read_metrics(run / "metrics.csv")[-1]
    assert (measured.steps, measured.updates, measured.real_seconds) == (600, last["updates"], last["seconds"])
    assert (measured.num_envs, measured.precision, measured.compiled) == (2, "fp32", False)
    assert measured.measured_updates == pytest.approx(0.25 * measured.measured_steps, abs=2)
    printed = capsys.readouterr().out
    assert f"wrote {run / 'wall_clock.json'}" in printed
    assert "by protocol" in printed
    again = flashsac.resume(str(run), steps=800, new_run_dir=str(tmp_path / "longer"), quiet=True)
    assert not (again.run_dir / "wall_clock.json").exists(), "the sums are those of the other run"


SLOW_ENV = """
import time
from tests.toy_envs import PointEnv
class Slow(PointEnv):
    def step(self, action):
        time.sleep(0.02)
        return super().step(action)
"""


@pytest.mark.slow
def test_a_slow_simulator_is_measured_as_such(tmp_path, monkeypatch):
    """Each transition sleeps for 20 ms, and so does nothing else."""
    (tmp_path / "slow_point.py").write_text(SLOW_ENV)
    monkeypatch.syspath_prepend(tmp_path)
    run = tiny_run(
        tmp_path / "run", "slow_point:Slow", steps=200, agent=TINY["agent"] | dict(warmup=50), env=dict(num_envs=1)
    )
    measured, _ = measure_run(run, 1.0, trust_run=True)
    assert measured.simulation_seconds_per_step >= 0.02
    assert measured.interaction_seconds >= 200 * 0.02
    assert measured.measured_steps <= 1.0 / 0.02 + 2


@pytest.mark.slow
def test_a_report_shows_measured_runs_as_far_as_they_have_come(pendulum_run, tmp_path):
    run = shutil.copytree(pendulum_run, tmp_path / "run")
    MEASURED.write(run)
    last = read_metrics(run / "metrics.csv")[-1]
    written = report({"mine": [run]}, tmp_path / "out")
    (table,) = [path for path in written if path.name == "wall_clock.csv"]
    with table.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["name"], row["seed"], row["steps"]) == ("mine", "0", "600")
    assert float(row["protocol_seconds"]) == pytest.approx(600 * 0.003 + last["updates"] * 0.03, rel=1e-5)
    assert float(row["real_seconds"]) == pytest.approx(last["seconds"], rel=1e-5)
    (run / "wall_clock.json").write_text("?")
    said: list[str] = []
    assert all(file.name != "wall_clock.csv" for file in report({"mine": [run]}, tmp_path / "new", say=said.append))
    assert "wall_clock.json cannot be read" in said[0]


@pytest.mark.slow
def test_a_run_that_trains_is_not_measured(pendulum_run, tmp_path):
    run = shutil.copytree(pendulum_run, tmp_path / "run")
    training = Run.open(run)
    try:
        with pytest.raises(RunDirectoryError, match="another process is training"):
            measure_run(run, 0.1)
    finally:
        training.close()
    assert not (run / "wall_clock.json").exists()


def test_what_cannot_be_measured_says_why(tmp_path, monkeypatch):
    with pytest.raises(RunDirectoryError, match="is no run directory"):
        measure_run(tmp_path / "nowhere", 0.1)
    config = TrainConfig(device="cpu", run_dir=str(tmp_path / "run"))
    run = Run.create("isaaclab:Isaac-Lift-Cube-Franka-v0", config)
    run.write_config()
    run.close()
    with pytest.raises(RunDirectoryError, match="has trained nothing yet"):
        measure_run(run.path, 0.1)
    (run.path / "metrics.csv").write_text("step,updates,seconds\n100,10,5\n")
    with pytest.raises(MissingExtra, match="[Ii]saac"):
        measure_run(run.path, 0.1)
    with pytest.raises(FlashSACError, match="Leave --task away"):
        measure_run(run.path, 0.1, "dmc:walker-walk")
    edit_config(run.path, '"cpu"', '"cuda:7"')
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(FlashSACError, match="trained on cuda:7, which this machine does not have"):
        measure_run(run.path, 0.1)
    assert not (run.path / "wall_clock.json").exists()


@pytest.mark.slow
def test_code_that_a_run_names_is_not_imported_unasked(tmp_path):
    run = tiny_run(tmp_path / "run", "tests.toy_envs:make_point")
    with pytest.raises(UntrustedRun):
        measure_run(run, 0.2)
    measured, notes = measure_run(run, 0.2, "tests.toy_envs:make_point")
    assert measured.task == "tests.toy_envs:make_point"
    assert notes == []
    task, config = read_config(run)
    assert (task, config.steps) == ("tests.toy_envs:make_point", 600)
    assert dataclasses.replace(measured, steps=0).protocol_seconds < measured.protocol_seconds
