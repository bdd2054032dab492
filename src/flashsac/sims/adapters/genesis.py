"""Genesis: our own tasks on its physics engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashsac.sims.simulator import EnvRequest, Package, Simulator, Suite, Task, extra

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv


def make(task: Task, request: EnvRequest) -> VecEnv:
    from flashsac.sims.envs.genesis import make_genesis

    return make_genesis(task, request)


SIMULATOR = Simulator(
    "genesis",
    make,
    packages={"genesis": Package("genesis", extra("genesis", own_environment=True))},
    suites=(Suite("genesis", "Genesis: our own tasks on its engine", "parallel", 0.95),),
    distributions=("genesis-world",),
    takes_options=True,
)
