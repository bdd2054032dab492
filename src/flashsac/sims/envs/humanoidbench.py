"""HumanoidBench: Gymnasium environments of the Unitree H1, from a package that users install from its repository."""

from __future__ import annotations

from typing import Any

import numpy as np

from flashsac.sims.catalog import unknown_task
from flashsac.sims.envs.gymnasium import make_gymnasium
from flashsac.sims.simulator import EnvRequest, Task
from flashsac.sims.vector.sequential import SequentialVecEnv


def make_humanoidbench(task: Task, request: EnvRequest) -> SequentialVecEnv:
    """HumanoidBench by the ids that `import humanoid_bench` registers, such as h1-walk-v0. Actions are in [-1, 1]
    already."""
    import gymnasium
    import humanoid_bench  # noqa: F401 (registers the tasks)

    if task.own_id not in gymnasium.registry:
        raise unknown_task(task.full_name, gymnasium.registry)
    return make_gymnasium(
        task.own_id,
        request.num_envs,
        max_episode_steps=request.max_episode_steps,
        render=request.render,
        wrap=SeededReset,
    )


class SeededReset:
    """A wrapper that lets the seed decide everything about an episode's beginning.

    Some tasks (reach's target, sit_hard's pose) draw it from NumPy's global generator. The seed given to reset does not
    reach that generator. The same seed would give other episodes, and a saved run could not be resumed exactly.
    """

    def __init__(self, env: Any):
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        # Without a seed the environment's own generator goes on, and that one is saved and restored.
        drawn = self._env.unwrapped.np_random.integers(2**32) if seed is None else seed % 2**32
        elsewhere = np.random.get_state()
        np.random.seed(int(drawn))
        try:
            return self._env.reset(seed=seed)
        finally:
            np.random.set_state(elsewhere)  # others may rely on theirs
