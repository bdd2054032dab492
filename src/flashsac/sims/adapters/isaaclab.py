"""NVIDIA Isaac Lab: thousands of environments on a GPU, one batch of them in a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashsac.sims.simulator import EnvRequest, Package, Simulator, Suite, Task

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv

INSTALL = "NVIDIA's own instructions, then pip install -e . in a clone of flashsac, beside it (docs/simulators.md)"


def make(task: Task, request: EnvRequest) -> VecEnv:
    from flashsac.sims.envs.isaaclab import make_isaaclab

    return make_isaaclab(task, request)


SIMULATOR = Simulator(
    "isaaclab",
    make,
    packages={"isaaclab": Package("isaaclab", INSTALL)},
    suites=(Suite("isaaclab", "NVIDIA Isaac Lab", "parallel", 0.99, n_step=3, has_more=True),),
    distributions=("isaaclab", "rsl-rl-lib"),
    evaluate_apart=True,
)
