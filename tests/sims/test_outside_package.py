"""docs/add-a-simulator.md as its reader follows it: a package outside this repository, installed, listed, trained by name."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from flashsac.runs.directory import read_config
from tests.helpers import ROOT, blocks, cli, named_blocks

pytestmark = pytest.mark.slow

PAGE = "docs/add-a-simulator.md"
OFFLINE = "--no-deps --no-build-isolation --no-index --quiet --disable-pip-version-check".split()
"""The scratch environment has what the package needs already."""
SHORT = (
    "--steps 3000 --agent.warmup 1000 --env.num-envs 100 --agent.critic-width 8 --agent.actor-width 8 --compile off "
    "--eval.every 3000 --eval.episodes 2"
).split()


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """The interpreter of a new virtual environment that also sees the packages of this one."""
    folder = tmp_path_factory.mktemp("scratch")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    seen = [ROOT / "src", *(path for path in sys.path if path.endswith("site-packages"))]
    (site_packages / "beside.pth").write_text("\n".join(map(str, seen)))
    return folder / "bin" / "python"


def run(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
    done = subprocess.run([python, "-m", *arguments], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_page_from_its_files_to_a_trained_policy(python, tmp_path):
    package, elsewhere = tmp_path / "package", tmp_path / "elsewhere"
    package.mkdir()
    elsewhere.mkdir()
    files = named_blocks(PAGE)
    for name in ("hover.py", "flashsac_hover.py", "pyproject.toml"):
        (package / name).write_text(files[name])

    (commands,) = blocks("bash", PAGE)
    (pip, *install), (_, *listing), (_, *training) = (shlex.split(line) for line in commands.splitlines())
    assert [pip, *install] == ["pip", "install", "."]
    run(python, "pip", *install, *OFFLINE, cwd=package)

    shown = run(python, "flashsac", *listing, cwd=elsewhere).stdout
    assert "Masses that must hold their height (preset parallel, discount 0.97)" in shown
    assert "hover: installed" in shown
    assert "masses:hover" in shown
    overview = run(python, "flashsac", "list", cwd=elsewhere).stdout.splitlines()
    rows = [line.split()[0] for line in overview if line.startswith(" ")]
    assert rows[-2:] == ["gym", "masses"], "ours first"

    run(python, "flashsac", *training, *SHORT, "--run-dir", "run", cwd=elsewhere)
    task, config = read_config(elsewhere / "run")
    assert (task, config.env.engine, config.agent.discount) == ("masses:hover", "hover", 0.97)
    evaluated = run(python, "flashsac", "eval", "run", "--episodes", "2", cwd=elsewhere).stdout
    assert "masses:hover: return" in evaluated


def pretend_installed(folder: Path, package: str, module: str, code: str) -> None:
    """A package as pip leaves it behind: its metadata with the entry point, and one module."""
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[flashsac.simulators]\n{module} = {module}:SIMULATOR\n")
    (folder / f"{module}.py").write_text(code)


def listed(folder: Path, check: bool = True) -> subprocess.CompletedProcess:
    return cli("list", check=check, PYTHONPATH=os.pathsep.join(map(str, (folder, ROOT / "src"))))


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("import a_library_that_is_missing", "ModuleNotFoundError: No module named 'a_library_that_is_missing'"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("", "AttributeError"),
        ("SIMULATOR = {}", "broken:SIMULATOR is a dict, not a flashsac.sims.simulator.Simulator"),
    ],
)
def test_a_broken_plug_in_is_left_out_with_a_note(tmp_path, code, problem):
    pretend_installed(tmp_path, "somebodys-package", "broken", code)
    done = listed(tmp_path)
    assert "note: the simulator plug-in 'broken' of the package somebodys-package is left out: " in done.stderr
    assert problem in done.stderr
    assert "Gymnasium's MuJoCo tasks" in done.stdout, "the others are there"


RECORD = """\
from flashsac.sims.simulator import Package, Simulator, Suite
SIMULATOR = Simulator("{name}", None, {{"{suite}": Package("{module}", "")}}, suites=(Suite("{suite}", "another"),))
"""


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ({"name": "envpool", "suite": "fast"}, "a simulator called 'envpool': flashsac and first-package"),
        ({"name": "another", "suite": "dmc"}, "a suite called 'dmc': dm_control and another"),
    ],
)
def test_a_name_twice_is_refused(tmp_path, names, problem):
    pretend_installed(tmp_path, "first-package", "first_module", RECORD.format(module="first_module", **names))
    done = listed(tmp_path, check=False)
    assert done.returncode == 1
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_two_packages_that_claim_one_name(tmp_path):
    for module in ("first", "second"):
        code = RECORD.format(name="theirs", suite="theirs", module=module)
        pretend_installed(tmp_path / module, f"{module}-package", module, code)
    both = os.pathsep.join(map(str, (tmp_path / "first", tmp_path / "second", ROOT / "src")))
    error = cli("list", check=False, PYTHONPATH=both).stderr
    assert "error: two plug-ins bring a simulator called 'theirs': first-package and second-package." in error


def test_a_suite_without_a_table_is_listed(tmp_path):
    code = RECORD.format(name="theirs", suite="theirs", module="theirs")
    pretend_installed(tmp_path, "their-package", "theirs", code.replace('"another"', '"another", has_more=True'))
    path = os.pathsep.join(map(str, (tmp_path, ROOT / "src")))
    shown = cli("list", "theirs", PYTHONPATH=path).stdout
    assert "theirs: another" in shown
    assert "its other tasks train too" in shown
    refused = cli("train", "theirs:robot", "--env.engine", "their", check=False, PYTHONPATH=path).stderr
    assert "theirs:robot does not run on their; it runs on theirs. Did you mean theirs?" in refused


def test_an_installation_older_than_the_source_says_so(tmp_path):
    """Its metadata knows no simulators: those found first on the path are the ones that count."""
    info = tmp_path / "flashsac-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flashsac\nVersion: 0.1.0\n")
    refused = listed(tmp_path, check=False)
    assert refused.returncode == 1
    assert "pip install -e ." in refused.stderr
    assert "Traceback" not in refused.stderr
