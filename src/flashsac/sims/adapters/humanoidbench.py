"""HumanoidBench: the Unitree H1 without hands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashsac.sims.simulator import EnvRequest, Package, Simulator, Suite, Task, model_per_env

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv


def make(task: Task, request: EnvRequest) -> VecEnv:
    from flashsac.sims.envs.humanoidbench import make_humanoidbench

    return make_humanoidbench(task, request)


SIMULATOR = Simulator(
    "humanoidbench",
    make,
    packages={"humanoidbench": Package("humanoid_bench", "its repository's instructions (docs/simulators.md)")},
    suites=(Suite("humanoidbench", "HumanoidBench: the Unitree H1 without hands", "single", 0.99, has_more=True),),
    distributions=("mujoco",),
    megabytes_per_env=model_per_env(humanoidbench=60.0),  # what Playground's humanoids take
)
