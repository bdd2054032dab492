"""Brings src/flashsac/sims/tasks.csv up to date with the EnvPool that is installed: tasks, dimensions, memory.

python scripts/update_tasks.py                    new tasks of the suites that EnvPool has, with their dimensions
python scripts/update_tasks.py --memory SUITE     measures what one environment of each task takes
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

FILE = Path(__file__).parents[1] / "src" / "flashsac" / "sims" / "tasks.csv"
PATTERNS = {
    "myosuite": r"MyoSuite/(.*)",
    "metaworld": r"MetaWorld/(.*)",
    "robotics": r"((?:Fetch|HandReach|HandManipulate|AdroitHand|PointMaze|AntMaze).*)",
}
FEW, MANY = 4, 20


def main(arguments: list[str]) -> None:
    with FILE.open() as file:
        reader = csv.DictReader(file)
        columns, rows = list(reader.fieldnames or []), list(reader)
    if arguments[:1] == ["--memory"]:
        for row in rows:
            if row["suite"] in arguments[1:] and "envpool" in row["engines"]:
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


def _new_tasks(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    import envpool
    import gymnasium
    import gymnasium_robotics

    gymnasium.register_envs(gymnasium_robotics)
    known = {(row["suite"], row["own_id"] or row["task"]) for row in rows}
    found = {}
    for env_id in envpool.list_all_envs():
        for suite, pattern in PATTERNS.items():
            match = re.fullmatch(pattern, env_id)
            if match and (suite, match[1]) not in known:
                spec = envpool.make_spec(env_id)
                boxes = getattr(spec.observation_space, "spaces", {"": spec.observation_space})
                width = sum(int(np.prod(box.shape)) for box in boxes.values())
                # Gymnasium-Robotics' Fetch and Shadow hand fail with the MuJoCo we pin (an assertion of theirs).
                own = suite != "robotics" or (match[1] in gymnasium.registry and "AdroitHand" in match[1])
                found[suite, match[1]] = {
                    "suite": suite,
                    "task": match[1],
                    "obs": str(width),
                    "action": str(spec.action_space.shape[0]),
                    "engines": "envpool+gymnasium" if own else "envpool",
                    "normal": "",
                }
    return list(found.values())


def _megabytes(row: dict[str, str]) -> float:
    """The slope between few and many environments, each in a process of its own."""
    code = (
        "import sys, psutil, torch; from flashsac.sims.engines import ENGINES, Options; from flashsac.sims.tasks import tasks\n"
        "env = ENGINES['envpool'].make(tasks()[sys.argv[1]], Options(int(sys.argv[2]))); env.reset(0)\n"
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
