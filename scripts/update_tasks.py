"""Bring src/flashsac/sims/tasks.csv up to date with the installed simulators. So `flashsac list` need not load them.

    python scripts/update_tasks.py                     # add new tasks, with their dimensions
    python scripts/update_tasks.py --memory NAME ...   # measure what one environment takes: of a task, or of a suite

Rows that are there stay as they are: those with a score are the paper's tables.
"""

from __future__ import annotations

import csv
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FILE = Path(__file__).parents[1] / "src" / "flashsac" / "sims" / "tasks.csv"
MUJOCO = (
    "Ant HalfCheetah Hopper Humanoid HumanoidStandup InvertedDoublePendulum InvertedPendulum Reacher Swimmer Walker2d"
).split()
ONLY_IN_ENVPOOL = {
    "playground": r"MuJoCoPlayground/(.*)-v1",
    # Gymnasium-Robotics' own Fetch and Shadow hand fail with the MuJoCo we pin (an assertion of theirs).
    "robotics": r"((?:Fetch|HandReach|HandManipulate|PointMaze|AntMaze).*)",
}
IN_BOTH = {"myosuite": r"MyoSuite/(.*)", "metaworld": r"MetaWorld/(.*)", "robotics": r"(AdroitHand.*)"}
FEW, MANY = 4, 20


def main(arguments: list[str]) -> None:
    with FILE.open() as file:
        reader = csv.DictReader(file)
        columns, rows = list(reader.fieldnames or []), list(reader)
    if arguments[:1] == ["--memory"]:
        for row in rows:
            wanted = row["suite"] in arguments and not row["megabytes"]
            if "envpool" in row["engines"] and (wanted or f"{row['suite']}:{row['task']}" in arguments):
                row["megabytes"] = f"{_megabytes(row):.2g}"
                print(row["suite"], row["task"], row["megabytes"], flush=True)
                _write(columns, rows)
    else:
        _write(columns, rows + _new_tasks(rows))


def _write(columns: list[str], rows: list[dict[str, str]]) -> None:
    suites = list(dict.fromkeys(row["suite"] for row in rows))
    rows = sorted(rows, key=lambda row: (suites.index(row["suite"]), row["normal"] == ""))
    with FILE.open("w") as file:
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _candidates() -> Iterator[tuple[str, str, str]]:
    """(suite, own id, engines)"""
    import envpool
    import gymnasium
    from dm_control import suite

    pool = set(envpool.list_all_envs())
    for name in (f"{robot}-{version}" for version in ("v4", "v5") for robot in MUJOCO):
        found = [engine for engine, has in (("envpool", pool), ("gymnasium", gymnasium.registry)) if name in has]
        yield "mujoco", name, "+".join(found)
    for domain, task in suite.ALL_TASKS:
        env_id = "".join(part.capitalize() for part in f"{domain}_{task}".split("_")) + "-v1"
        yield "dmc", f"{domain}-{task}", "dm_control+envpool" if env_id in pool else "dm_control"
        yield "dmc-vision", f"{domain}-{task}", "pixels"
    for patterns, engines in ((ONLY_IN_ENVPOOL, "envpool"), (IN_BOTH, "envpool+gymnasium")):
        for suite_name, pattern in patterns.items():
            for match in filter(None, (re.fullmatch(pattern, env_id) for env_id in sorted(pool))):
                yield suite_name, match[1], engines


def _new_tasks(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    from flashsac.sims.registry import simulators
    from flashsac.sims.simulator import EnvRequest, Task

    known = {(row["suite"], row["own_id"] or row["task"]) for row in rows}
    found = []
    for suite, name, engines in _candidates():
        if (suite, name) in known or not engines:
            continue
        first = engines.split("+")[0]
        try:
            spec = simulators()[first].make(Task(suite, name), EnvRequest(num_envs=1, overlap=False)).spec
        except Exception as error:  # one that needs an old mujoco, or pixels, is left out, and said so
            print(f"left out {suite}:{name}: {type(error).__name__}: {str(error)[:100]}")
            continue
        critic = str(spec.obs.get("critic", ""))
        seen = math.prod(spec.pixels.shape) if spec.pixels else spec.obs["actor"]
        row = {"suite": suite, "task": name, "obs": str(seen), "critic_obs": critic, "normal": ""}
        found.append(row | {"action": str(spec.action_dim), "engines": engines})
    return found


def _megabytes(row: dict[str, str]) -> float:
    """The slope between few and many environments, each in a process of its own."""
    code = (
        "import sys, psutil, torch; from flashsac.sims.registry import simulators; from flashsac.sims.simulator import EnvRequest\n"
        "from flashsac.sims.catalog import tasks\n"
        "env = simulators()['envpool'].make(tasks()[sys.argv[1]], EnvRequest(int(sys.argv[2]))); env.reset(0)\n"
        "for _ in range(5): env.step(torch.zeros(env.spec.num_envs, env.spec.action_dim))\n"
        "print(psutil.Process().memory_info().rss)"
    )
    task = f"{row['suite']}:{row['task']}"
    used = []
    for number in (FEW, MANY):
        done = subprocess.run(
            [sys.executable, "-c", code, task, str(number)], capture_output=True, text=True, check=True
        )
        used.append(int(done.stdout.split()[-1]))
    return max(0.01, (used[1] - used[0]) / (MANY - FEW) / 1e6)


if __name__ == "__main__":
    main(sys.argv[1:])
