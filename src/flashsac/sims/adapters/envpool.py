"""EnvPool: a C++ thread pool with many suites inside; the fast simulator on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashsac.sims.simulator import EnvRequest, Package, Simulator, Task, extra, model_per_env

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv

_PREFIXES = {"playground": "MuJoCoPlayground/", "myosuite": "MyoSuite/", "metaworld": "MetaWorld/"}
_SUFFIXES = {"playground": "-v1", "dmc": "-v1"}
_OPTIONS = {"metaworld": ("partially_observable=False",)}
"""Meta-World's own package shows the goal; EnvPool hides it unless asked."""


def _env_id(task: Task) -> str:
    """EnvPool's own name. dm_control's cartpole-balance_sparse is its CartpoleBalanceSparse-v1."""
    name = task.own_id
    if task.suite == "dmc":
        name = "".join(part.capitalize() for part in name.replace("-", "_").split("_"))
    return _PREFIXES.get(task.suite, "") + name + _SUFFIXES.get(task.suite, "")


def make(task: Task, request: EnvRequest) -> VecEnv:
    from flashsac.sims.envs.envpool import EnvPoolVecEnv

    return EnvPoolVecEnv(
        _env_id(task),
        request.num_envs,
        max_episode_steps=request.max_episode_steps,
        render=request.render,
        simulator_options=(*_OPTIONS.get(task.suite, ()), *request.simulator_options),
    )


SIMULATOR = Simulator(
    "envpool",
    make,
    packages=dict.fromkeys(
        ("mujoco", "dmc", "playground", "myosuite", "metaworld", "robotics"), Package("envpool", extra("envpool"))
    ),
    distributions=("envpool",),
    megabytes_per_env=model_per_env(myosuite=60.0, playground=60.0),
    takes_options=True,
)
