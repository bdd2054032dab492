"""Meta-World through its own package: the 50 goals of a task, one drawn at every reset."""

from __future__ import annotations

import re
from typing import Any

from flashsac.sims.envs.gymnasium import from_factory
from flashsac.sims.simulator import EnvRequest, Task
from flashsac.sims.vector.sequential import SequentialVecEnv
from flashsac.system.gl import choose_gl_backend


def make_metaworld(task: Task, request: EnvRequest) -> SequentialVecEnv:
    if request.render:
        choose_gl_backend()
    import gymnasium
    import metaworld

    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", task.own_id).lower()  # ButtonPressWall-v3 is button-press-wall-v3

    class SeededBefore(gymnasium.Wrapper):
        """Meta-World draws the goal before it takes the seed of the reset."""

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
            if seed is not None:
                self.unwrapped.seed(seed)  # type: ignore[attr-defined]
            return self.env.reset(options=options)

    def factory() -> Any:
        mode = {"render_mode": "rgb_array", "camera_name": "corner2"} if request.render else {}
        # The seed fixes the 50 goals, as EnvPool's are fixed.
        env = metaworld.make_mt_envs(name, seed=0, max_episode_steps=request.max_episode_steps, **mode)
        return SeededBefore(env)

    return from_factory(factory, request.num_envs, name=task.full_name)
