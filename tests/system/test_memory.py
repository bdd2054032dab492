"""More environments than fit are refused before any is made."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest

from flashsac.config.schema import EnvConfig
from flashsac.errors import NotEnoughMemory
from flashsac.sims import capacity
from flashsac.sims.capacity import check_memory
from flashsac.sims.catalog import tasks
from flashsac.sims.registry import simulators
from flashsac.sims.simulator import EnvRequest
from flashsac.system import memory


def test_too_many_dogs_are_refused_before_anything_heavy_is_loaded():
    code = (
        "import sys; from flashsac.cli.main import main; code = main(['train', 'dmc:dog-walk', '--env.num-envs', '10000']);"
        "print(code, sorted({'torch', 'dm_control', 'envpool'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1 []"
    assert "10,000 environments of dmc:dog-walk take about" in done.stderr
    assert "fit: --env.num-envs" in done.stderr


def test_the_number_that_fits(monkeypatch):
    task = dataclasses.replace(tasks()["dmc:dog-walk"], megabytes=100.0)
    monkeypatch.setattr(capacity, "available_memory", lambda: 10e9)
    dm_control = simulators()["dm_control"]
    check_memory(task, dm_control, EnvRequest(90))
    with pytest.raises(NotEnoughMemory, match=r"91 environments .* 90 fit: --env.num-envs 64"):
        check_memory(task, dm_control, EnvRequest(91))
    with pytest.raises(NotEnoughMemory, match="450 fit"):  # nobody has measured it: twenty each
        check_memory(dataclasses.replace(task, megabytes=None), dm_control, EnvRequest(10**6))


def test_where_not_one_fits_no_number_is_recommended(monkeypatch):
    monkeypatch.setattr(capacity, "available_memory", lambda: 100e6)
    task = dataclasses.replace(tasks()["dmc:dog-walk"], megabytes=100.0)
    with pytest.raises(NotEnoughMemory, match="Not even one fits: end other programs") as caught:
        check_memory(task, simulators()["dm_control"], EnvRequest(2))
    assert "num-envs" not in str(caught.value)


@pytest.mark.parametrize(
    ("task", "config", "device", "fit"),
    [
        ("maniskill:PullCube-v1", EnvConfig(num_envs=1024), "cpu", 32),  # a process each, 280 MB
        ("maniskill:PullCube-v1", EnvConfig(num_envs=1024), "cuda", None),
        ("maniskill:PullCube-v1", EnvConfig(num_envs=1024), "auto", None),  # which may come to a GPU
        ("dmc-vision:walker-run", EnvConfig(num_envs=1024), "auto", 22),
        ("dmc-vision:walker-run", EnvConfig(num_envs=1024), "cpu", 22),
        ("dmc-vision:walker-run", EnvConfig(num_envs=1024), "cuda", 22),  # drawing is done by processes all the same
        ("dmc-vision:walker-run", EnvConfig(num_envs=1024, overlap=False), "cpu", 112),  # in this process, 80 MB
        ("humanoidbench:h1-walk-v0", EnvConfig(num_envs=1024), "cpu", 150),  # a MuJoCo model each, 60 MB
        ("mjlab:Mjlab-Cartpole-Swingup", EnvConfig(num_envs=1024), "cpu", None),  # one model for all
    ],
)
def test_every_simulator_with_a_model_for_each_environment_is_counted(monkeypatch, task, config, device, fit):
    monkeypatch.setattr(capacity, "available_memory", lambda: 10e9)
    known, request = tasks()[task], EnvRequest.of(config, device)
    simulator = simulators()[known.engines[0]]
    if fit is None:
        check_memory(known, simulator, request)
        return
    with pytest.raises(NotEnoughMemory, match=f" {fit} fit"):
        check_memory(known, simulator, request)


@pytest.fixture
def groups(monkeypatch, tmp_path):
    """Says in which control groups we are, and what one of them may take, has taken, and of that can give back."""
    monkeypatch.setattr(memory, "CGROUP", str(tmp_path))
    monkeypatch.setattr(memory, "OWN_GROUPS", str(tmp_path / "own"))

    def limit(folder: str, most: str, used: int, cached: int, own: str = "", version: int = 2) -> None:
        (tmp_path / "own").write_text(own or (tmp_path / "own").read_text())
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        names = ("max", "current") if version == 2 else ("limit_in_bytes", "usage_in_bytes")
        stat = f"anon 300000\n{'total_' if version == 1 else ''}inactive_file {cached}"
        for name, text in zip((*names, "stat"), (most, str(used), stat), strict=True):
            (tmp_path / folder / f"memory.{name}").write_text(text + "\n")

    return limit


def test_a_containers_cached_files_are_not_counted_as_used(groups):
    groups("", "1000000", 900_000, 500_000, own="0::/\n")
    assert memory.available_memory() == 1_000_000 - 900_000 + 500_000
    groups("", "max", 900_000, 500_000)
    assert memory.available_memory() > 10**7


def test_the_smallest_limit_on_the_way_to_the_root_counts(groups):
    """Of a batch job or a service: a group within groups, of which any may be limited."""
    groups("system.slice/job-7/step-0", "max", 10, 0, own="1:name=systemd:/x\n0::/system.slice/job-7/step-0\n")
    groups("system.slice/job-7", "1000000", 900_000, 0)
    groups("system.slice", "5000000", 900_000, 0)
    assert memory.available_memory() == 100_000
    groups("somebody.elses", "10", 0, 0)
    assert memory.available_memory() == 100_000


def test_limits_of_the_first_version_count_too(groups):
    own = "5:cpu,cpuacct:/job\n4:memory:/job\n"
    groups("memory/job", "1000000", 900_000, 50_000, own=own, version=1)
    groups("memory", "9223372036854771712", 0, 0, version=1)  # what it calls unlimited
    assert memory.available_memory() == 150_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
def test_freed_memory_is_used_again_and_not_fetched_anew():
    code = (
        "import resource, torch; from flashsac.system.memory import keep_freed_memory; keep_freed_memory()\n"
        "faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "def use(): made = [torch.ones(2_000_000) for _ in range(10)]\n"
        "use(), use(), use(); before = faults()\n"
        "for _ in range(5): use()\n"
        "print(faults() - before)"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    pages = 5 * 10 * 8_000_000 // 4096
    assert int(done.stdout) < pages / 5, "given back, nearly all of these would be fetched again"


def test_what_the_user_chose_for_malloc_stays(monkeypatch):
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: pytest.fail("malloc was changed"))
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    memory.keep_freed_memory()
