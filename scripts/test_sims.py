"""Test every simulator that can be installed, for real: its tests, check_env, thirty seconds of training.

    python scripts/test_sims.py [NAME ...]

Each has a virtual environment, .venvs/NAME, which is built where it is missing. That takes hours, mostly downloads. The
script prints a table and writes benchmarks/results/simulators.csv row by row, so an interrupted one keeps what it saw.
Isaac Lab and HumanoidBench cannot be installed everywhere. `make test` tests them on fakes with their conventions.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "simulators.csv"
SECONDS = 30
FIELDS = ("suite", "engine", "task", "installed", "tests", "check_env", "trained", "updates", "steps_per_second")


@dataclasses.dataclass(frozen=True)
class Sim:
    """One row of the table."""

    venv: str
    """.venv itself, or one of .venvs."""
    engine: str
    task: str
    tests: str
    """Paths from tests."""
    num_envs: int = 8
    contract: bool = False
    """It cannot be installed everywhere: only its tests run, against a fake."""

    @property
    def python(self) -> Path:
        return ROOT / (".venv" if self.venv == "main" else f".venvs/{self.venv}") / "bin" / "python"


ADAPTERS, ENGINES = "sims/test_adapters.py", "sims/test_engines_agree.py"
SIMS = (
    Sim("main", "envpool", "mujoco:HalfCheetah-v4", ADAPTERS),
    Sim("main", "envpool", "dmc:humanoid-walk", ADAPTERS),
    Sim("main", "envpool", "playground:G1JoystickFlatTerrain", ADAPTERS),
    Sim("main", "envpool", "myosuite:myo-reach", ADAPTERS),
    Sim("main", "envpool", "metaworld:Reach-v3", ADAPTERS),
    Sim("main", "envpool", "robotics:FetchReachDense-v4", ADAPTERS),
    Sim("main", "gymnasium", "mujoco:HalfCheetah-v4", ENGINES, num_envs=1),
    Sim("main", "dm_control", "dmc:humanoid-walk", ENGINES, num_envs=1),
    Sim("main", "gymnasium", "robotics:AdroitHandDoor-v1", ENGINES, num_envs=1),
    Sim("myosuite", "gymnasium", "myosuite:myo-reach", ENGINES, num_envs=1),
    Sim("metaworld", "gymnasium", "metaworld:Reach-v3", ENGINES, num_envs=1),
    Sim(
        "genesis", "genesis", "genesis:go2-walk_easy", "sims/test_genesis.py tasks/test_genesis_rewards.py", num_envs=64
    ),
    Sim(
        "mjlab",
        "mjlab",
        "mjlab:Mjlab-Cartpole-Swingup",
        "sims/test_mjlab.py sims/test_rsl_rl.py integrations tasks",
        num_envs=64,
    ),
    Sim("maniskill", "maniskill", "maniskill:PullCube-v1", "sims/test_maniskill.py", num_envs=2),
    Sim("playground", "jax", "playground:CartpoleBalance", "sims/test_playground.py", num_envs=64),
    Sim("main", "isaaclab", "isaaclab:Isaac-Velocity-Flat-G1-v0", "sims/test_isaaclab.py", contract=True),
    Sim("main", "humanoidbench", "humanoidbench:h1-walk-v0", "sims/test_humanoidbench.py", contract=True),
)


def main(wanted: list[str]) -> int:
    rows = []
    for sim in SIMS:
        if wanted and sim.venv not in wanted and sim.task.split(":")[0] not in wanted:
            continue
        print(f"\n{sim.task} on {sim.engine} ({sim.venv}) ...", flush=True)
        row = {"suite": sim.task.split(":")[0], "engine": sim.engine, "task": sim.task}
        row["installed"] = "a fake" if sim.contract else _install(sim)
        if row["installed"] != "no":
            row["tests"] = _tests(sim.python, sim.tests)
            row |= dict.fromkeys(("check_env", "trained"), "by contract") if sim.contract else _check(sim) | _train(sim)
        rows.append(row)
        print({name: row.get(name, "") for name in FIELDS}, flush=True)
        _keep(row)
    _print(rows)
    wrong = {"", "no", "NO", "FAIL"}
    bad = [
        row["task"]
        for row in rows
        if any(row.get(name, "no").split(" ")[0] in wrong for name in ("installed", "tests", "check_env", "trained"))
    ]
    print(f"\nfailed: {', '.join(bad)}" if bad else "\nall well")
    return 1 if bad else 0


def _install(sim: Sim) -> str:
    """The version of the simulator's package, or no."""
    package = {"envpool": "envpool", "dm_control": "dm_control", "jax": "playground"}
    names = {
        "mujoco": "gymnasium",
        "robotics": "gymnasium-robotics",
        "genesis": "genesis-world",
        "maniskill": "mani_skill",
    }
    name = package.get(sim.engine) or names.get(sim.task.split(":")[0], sim.task.split(":")[0])
    try:
        if sim.venv != "main":  # which is `make setup`'s
            _build(sim)
        version = f"import importlib.metadata as m; print(m.version('{name}'))"
        return subprocess.run([sim.python, "-c", version], capture_output=True, text=True, check=True).stdout.strip()
    except subprocess.CalledProcessError as error:
        print(error.stderr or error)
        return "no"


def _build(sim: Sim) -> None:
    """The environment of the simulator, unless it was finished before from the same pins and entry points."""
    folder = sim.python.parents[1]
    pins, finished = ROOT / "constraints" / f"{sim.venv}.txt", folder / "installed.txt"
    wanted = pins.read_text() + (ROOT / "pyproject.toml").read_text()
    if finished.exists() and finished.read_text() == wanted:
        return
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [sim.python, "-m", "pip", "install", "--quiet", "--constraint", pins]
    subprocess.run([*pip, "torch"], check=True)  # first and alone, or another build of it may be chosen
    # EnvPool beside the packages that it is compared with.
    extras = f"{sim.venv},envpool" if sim.tests == ENGINES else sim.venv
    subprocess.run([*pip, "--editable", f"{ROOT}[{extras}]", "pytest"], check=True)
    if sim.venv == "maniskill":
        subprocess.run(["sh", ROOT / "scripts" / "install_vulkan.sh"], check=True)
    finished.write_text(wanted)


@functools.cache
def _tests(python: Path, files: str) -> str:
    """Several rows share their tests, which run once; what they skip is said, because a skipped test shows nothing."""
    paths = [ROOT / "tests" / name for name in files.split()]
    command = [python, "-m", "pytest", "-q", "-rs", "--color=no", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout[-3000:], flush=True)
    counts = done.stdout.strip().splitlines()[-1].rpartition(" in ")[0].strip("= ")
    return f"{'pass' if done.returncode == 0 and 'passed' in counts else 'FAIL'} ({counts})"


def _check(sim: Sim) -> dict[str, str]:
    """Of episodes short enough to end while they are watched; how fast it is, of those of the task's own length."""
    code = (
        "import warnings, flashsac; from flashsac.bench.measure import steps_per_second\n"
        "from flashsac.config.schema import EnvConfig\n"
        f"settings = dict(num_envs={sim.num_envs}, engine='{sim.engine}')\n"
        "warnings.filterwarnings('error', message='no episode ended')\n"
        f"short = flashsac.make_env('{sim.task}', EnvConfig(max_episode_steps=15, **settings))\n"
        "flashsac.check_env(short); short.close()\n"
        f"print(round(steps_per_second(flashsac.make_env('{sim.task}', EnvConfig(**settings)), 5.0)))"
    )
    checked = subprocess.run([sim.python, "-c", code], capture_output=True, text=True, cwd=ROOT)
    if checked.returncode:
        print(checked.stderr)
    return {
        "check_env": "yes" if checked.returncode == 0 else "NO",
        "steps_per_second": checked.stdout.split()[-1] if checked.returncode == 0 else "",
    }


def _train(sim: Sim) -> dict[str, str]:
    """Half a minute from the first update on, then Ctrl-C."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder, "run")
        options = f"--preset laptop --steps 10000000 --agent.warmup 1000 --replay.capacity 100000 --env.num-envs {sim.num_envs}"
        options += f" --env.engine {sim.engine} --eval.every 0 --log-every 200 --no-video --run-dir {run}"
        process = subprocess.Popen([sim.python, "-m", "flashsac", "train", sim.task, *options.split()], cwd=folder)
        deadline, until = time.time() + 900, None
        while process.poll() is None and time.time() < (until or deadline):
            time.sleep(1)
            if until is None and float(_last_row(run).get("updates") or 0) > 0:
                until = time.time() + SECONDS
        process.send_signal(signal.SIGINT)
        process.wait(120)
        row = _last_row(run)
    updates, loss = float(row.get("updates") or 0), float(row.get("critic_loss") or "nan")
    return {"trained": "yes" if until and updates > 0 and math.isfinite(loss) else "NO", "updates": f"{updates:.0f}"}


def _last_row(run: Path) -> dict[str, str]:
    try:
        with open(run / "metrics.csv") as file:
            return list(csv.DictReader(file))[-1]
    except (OSError, IndexError):
        return {}


def _print(rows: list[dict[str, str]]) -> None:
    widths = {name: max(len(name), *(len(row.get(name, "")) for row in rows)) for name in FIELDS}
    print("\n" + "  ".join(name.ljust(widths[name]) for name in FIELDS))
    for row in rows:
        print("  ".join(row.get(name, "").ljust(widths[name]) for name in FIELDS))


def _keep(row: dict[str, str]) -> None:
    """Into the table, in the place of the row that an earlier run left there; at once, because what comes may take
    hours."""
    table = {(sim.engine, sim.task): {} for sim in SIMS}
    RESULTS.touch()
    with RESULTS.open() as file:
        table |= {key: old for old in csv.DictReader(file) if (key := (old["engine"], old["task"])) in table}
    table[row["engine"], row["task"]] = row
    with RESULTS.open("w") as file:
        writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(filter(None, table.values()))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    sys.exit(main(sys.argv[1:]))
