"""mjlab: Isaac Lab's interface on MuJoCo Warp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashsac.sims.simulator import EnvRequest, Package, Simulator, Suite, Task, extra

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv
    from flashsac.types import EnvSpec


def _annotate(spec: EnvSpec, task: Task) -> EnvSpec:
    if not task.own_id.startswith("FlashSAC-G1"):
        return spec
    from flashsac.tasks.g1.spec import annotate_spec

    return annotate_spec(spec)


def make(task: Task, request: EnvRequest) -> VecEnv:
    from flashsac.sims.envs.mjlab import make_mjlab

    return make_mjlab(task, request)


SIMULATOR = Simulator(
    "mjlab",
    make,
    packages={"mjlab": Package("mjlab", extra("mjlab", own_environment=True))},
    suites=(
        Suite(
            "mjlab",
            "mjlab: Isaac Lab's interface on MuJoCo Warp",
            "parallel",
            0.99,
            has_more=True,
            annotate_spec=_annotate,
        ),
    ),
    distributions=("mjlab", "mujoco-warp", "rsl-rl-lib", "mujoco"),
)
