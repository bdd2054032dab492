"""Gymnasium, and the suites whose own packages register their environments with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashsac.sims.simulator import EnvRequest, Package, Simulator, Suite, Task, extra, model_per_env

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv

_REGISTER = {"robotics": "gymnasium_robotics", "myosuite": "myosuite"}
"""Packages that register their environments when they are imported."""


def make(task: Task, request: EnvRequest) -> VecEnv:
    if task.suite == "metaworld":
        from flashsac.sims.envs.metaworld import make_metaworld

        return make_metaworld(task, request)
    from flashsac.sims.envs.gymnasium import make_gymnasium

    return make_gymnasium(
        task.own_id,
        request.num_envs,
        max_episode_steps=request.max_episode_steps,
        render=request.render,
        package=_REGISTER.get(task.suite),
        frame_stack=request.frame_stack,
    )


SIMULATOR = Simulator(
    "gymnasium",
    make,
    packages={
        "gym": Package("gymnasium", extra("gym")),
        "mujoco": Package("mujoco", extra("mujoco")),
        "robotics": Package("gymnasium_robotics", extra("robotics")),
        "myosuite": Package("myosuite", extra("myosuite", own_environment=True)),
        "metaworld": Package("metaworld", extra("metaworld", own_environment=True)),
    },
    suites=(
        Suite("mujoco", "Gymnasium's MuJoCo tasks", "single", 0.99),
        Suite("myosuite", "MyoSuite: muscles and bones", "single", 0.95),
        Suite("metaworld", "Meta-World: a table-top arm", "single", 0.99),
        Suite("robotics", "Gymnasium-Robotics: Fetch, Shadow and Adroit hands, mazes", "single", 0.99),
        Suite("gym", "any environment registered with Gymnasium", "single", 0.99),
    ),
    distributions=("gymnasium", "mujoco", "gymnasium-robotics", "myosuite", "metaworld"),
    megabytes_per_env=model_per_env(myosuite=60.0),
    preferred_for_one=True,
)
