"""MuJoCo Playground in JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashsac.sims.simulator import EnvRequest, Package, Simulator, Suite, Task, extra

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv
    from flashsac.types import EnvSpec


def _annotate(spec: EnvSpec, task: Task) -> EnvSpec:
    from flashsac.tasks.joystick import annotate_spec

    return annotate_spec(spec, task.name)


def make(task: Task, request: EnvRequest) -> VecEnv:
    from flashsac.sims.envs.playground import make_playground

    return make_playground(task, request)


SIMULATOR = Simulator(
    "jax",
    make,
    packages={"playground": Package("mujoco_playground", extra("playground", own_environment=True))},
    suites=(
        Suite(
            "playground", "MuJoCo Playground: humanoids, quadrupeds, hands", "parallel", 0.97, annotate_spec=_annotate
        ),
    ),
    distributions=("playground", "jax", "mujoco"),
)
