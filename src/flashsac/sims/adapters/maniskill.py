"""ManiSkill: manipulation, on a GPU or on CPU physics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashsac.sims.simulator import EnvRequest, Package, Simulator, Suite, Task, extra

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv

IN_A_WORKER = 280.0
"""Megabytes of one environment on the CPU, where each has a process of its own."""


def _megabytes(task: Task, request: EnvRequest) -> float:
    # "auto" may come to a GPU; when the environments are made, the device is known, and this is asked again.
    return IN_A_WORKER if request.device == "cpu" else 0.0


def make(task: Task, request: EnvRequest) -> VecEnv:
    from flashsac.sims.envs.maniskill import make_maniskill

    return make_maniskill(task, request)


SIMULATOR = Simulator(
    "maniskill",
    make,
    packages={"maniskill": Package("mani_skill", extra("maniskill", own_environment=True))},
    suites=(Suite("maniskill", "ManiSkill: manipulation", "parallel", 0.9, has_more=True),),
    distributions=("mani_skill",),
    megabytes_per_env=_megabytes,
)
