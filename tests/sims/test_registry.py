"""The records of our own simulators, and the choice among them."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from flashsac.config.schema import EnvConfig
from flashsac.errors import FlashSACError
from flashsac.sims.catalog import simulated_by, suites, tasks
from flashsac.sims.registry import choose_simulator, simulators
from flashsac.sims.simulator import Simulator, Task, read_tasks
from tests.helpers import ROOT


def test_every_adapter_is_registered():
    files = (ROOT / "src" / "flashsac" / "sims" / "adapters").glob("[a-z]*.py")
    records = [importlib.import_module(f"flashsac.sims.adapters.{file.stem}").SIMULATOR for file in files]
    ours = {record.name: record for record in records}
    assert ours.items() <= simulators().items(), "a new one needs its entry point, and pip install -e . again"


def test_records_load_neither_torch_nor_a_simulator():
    code = (
        "import sys; from flashsac.sims.catalog import tasks; tasks()\n"
        "print(sorted({'torch', 'numpy', 'gymnasium', 'envpool', 'dm_control', 'mujoco', 'jax'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_listed_task_has_a_suite_and_simulators_that_know_it():
    for task in tasks().values():
        assert task.suite in suites()
        assert task.engines
        assert set(task.engines) <= set(simulated_by(task.suite)), task


@pytest.mark.parametrize(
    ("task", "num_envs", "engine"),
    [
        ("mujoco:HalfCheetah-v4", 8, "envpool"),
        ("mujoco:HalfCheetah-v4", 1, "gymnasium"),
        ("dmc:walker-walk", 8, "envpool"),
        ("dmc:walker-walk", 1, "dm_control"),
        ("playground:Go1JoystickFlatTerrain", 1, "envpool"),  # JAX resumes exactly too, but compiles for minutes
    ],
)
def test_auto_takes_the_fast_one_or_for_one_environment_the_exact_one(task, num_envs, engine):
    assert choose_simulator(tasks()[task], EnvConfig(num_envs=num_envs)).name == engine


def test_an_engine_that_does_not_exist():
    with pytest.raises(FlashSACError, match=r"does not run on envpol; it runs on .*gymnasium. Did you mean envpool\?"):
        choose_simulator(tasks()["mujoco:Hopper-v4"], EnvConfig(engine="envpol"))
    with pytest.raises(FlashSACError, match=r"does not run on jax; it runs on .*gymnasium.$"):
        choose_simulator(tasks()["mujoco:Hopper-v4"], EnvConfig(engine="jax"))


def test_a_table_of_tasks_needs_few_columns():
    (task,) = read_tasks("suite,task,obs,action\nhover,low,2,1\n")
    assert task == Task("hover", "low", obs=2, action=1)
    assert (task.own_id, task.engines, task.metric) == ("low", (), "return")


def test_a_record_needs_few_fields():
    plain = Simulator("hover", make=lambda task, request: None, packages={})
    assert plain.megabytes_per_env(Task("hover", "low"), None) == 0.0
    assert not any((plain.takes_options, plain.evaluate_apart, plain.preferred_for_one))
