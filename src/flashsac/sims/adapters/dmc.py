"""dm_control through its own package: the DeepMind Control Suite from state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashsac.sims.simulator import EnvRequest, Package, Simulator, Suite, Task, extra, model_per_env

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv


def make(task: Task, request: EnvRequest) -> VecEnv:
    from flashsac.sims.envs.dmc import make_dmc

    return make_dmc(task, request)


def highest_return(task: Task) -> float | None:
    """Rewards lie in [0, 1] and episodes have 1000 steps, but for LQR, whose rewards fall without limit."""
    return None if task.name.startswith("lqr") else 1000.0


SIMULATOR = Simulator(
    "dm_control",
    make,
    packages={"dmc": Package("dm_control", extra("dmc"))},
    suites=(Suite("dmc", "DeepMind Control Suite, from state", "single", 0.99, highest_return=highest_return),),
    distributions=("dm_control", "mujoco"),
    megabytes_per_env=model_per_env(),
    preferred_for_one=True,
)
