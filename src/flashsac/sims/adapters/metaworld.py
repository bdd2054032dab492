"""Meta-World through its own package: the 50 goals of a task, one drawn at every reset."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flashsac.sims.adapters.gymnasium import from_factory
from flashsac.sims.vector.sequential import SequentialVecEnv
from flashsac.system.gl import choose_gl_backend

if TYPE_CHECKING:
    from flashsac.sims.catalog import Task
    from flashsac.sims.engines import Options


def make_metaworld(task: Task, options: Options) -> SequentialVecEnv:
    if options.render:
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
        mode = {"render_mode": "rgb_array", "camera_name": "corner2"} if options.render else {}
        # The seed fixes the 50 goals, as EnvPool's are fixed.
        env = metaworld.make_mt_envs(name, seed=0, max_episode_steps=options.max_episode_steps, **mode)
        return SeededBefore(env)

    return from_factory(factory, options.num_envs, name=task.full_name)
