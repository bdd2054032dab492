"""Writes src/flashsac/sims/tasks.csv from the simulators themselves, so that `flashsac list` need not load them."""

from __future__ import annotations

import csv
from pathlib import Path

import envpool
import gymnasium
from dm_control import suite

from flashsac.sims import registry

MUJOCO = (
    "Ant HalfCheetah Hopper Humanoid HumanoidStandup InvertedDoublePendulum InvertedPendulum Reacher Swimmer Walker2d"
).split()
GYM = ("Pendulum-v1", "MountainCarContinuous-v0")


def candidates() -> list[tuple[str, str, str]]:
    """(suite, task, engines)"""
    pool = set(envpool.list_all_envs())
    rows = []
    for version in ("v4", "v5"):
        for name in MUJOCO:
            engines = ["gymnasium"] if f"{name}-{version}" in gymnasium.registry else []
            engines += ["envpool"] if f"{name}-{version}" in pool else []
            rows.append(("mujoco", f"{name}-{version}", "+".join(sorted(engines))))
    for domain, task in suite.ALL_TASKS:
        env_id = "".join(part.capitalize() for part in f"{domain}_{task}".split("_")) + "-v1"
        rows.append(("dmc", f"{domain}-{task}", "dm_control+envpool" if env_id in pool else "dm_control"))
    prefix = "MuJoCoPlayground/"
    for env_id in sorted(pool):
        if env_id.startswith(prefix):
            rows.append(("playground", env_id.removeprefix(prefix).removesuffix("-v1"), "envpool"))
    return rows + [("gym", name, "gymnasium") for name in GYM]


def main() -> None:
    out = Path(__file__).parents[1] / "src/flashsac/sims/tasks.csv"
    with out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["suite", "task", "obs", "critic_obs", "action", "engines"])
        for suite_name, name, engines in candidates():
            engine = registry.ENGINES[engines.split("+")[-1]]
            try:
                env = engine.make(f"{suite_name}:{name}", num_envs=1, max_episode_steps=None, render=False)
            except Exception as error:  # a task that needs an old mujoco or pixels is left out, and said so
                print(f"left out {suite_name}:{name}: {type(error).__name__}: {str(error)[:100]}")
                continue
            spec = env.spec
            writer.writerow([suite_name, name, spec.obs["actor"], spec.obs.get("critic", ""), spec.action_dim, engines])
            env.close()


if __name__ == "__main__":
    main()
