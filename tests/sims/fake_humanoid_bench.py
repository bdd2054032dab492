"""What `import humanoid_bench` registers, with its conventions and a point mass for a robot.

The conventions are those of the package's `env.py` and `tasks.py`: ids h1-TASK-v0, a time limit of 1000 by Gymnasium's wrapper,
float64 observations, actions in [-1, 1], terms of the reward in info, a line printed for every environment made, and tasks that
draw their beginning from NumPy's global generator.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box

WIDTHS = {
    "walk": 51, "stand": 51, "run": 51, "reach": 57, "maze": 51, "hurdle": 51, "crawl": 51, "sit_simple": 51, "sit_hard": 64,
    "balance_simple": 64, "balance_hard": 77, "stair": 51, "slide": 51, "pole": 51, "package": 63,
}  # fmt: skip
DRAWS_GLOBALLY = ("reach", "sit_hard")


class FakeHumanoidEnv(gymnasium.Env):
    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 50}

    def __init__(self, task: str, render_mode: str = "rgb_array"):
        self.task, self.render_mode = task, render_mode
        self.action_space = Box(-1, 1, (19,), np.float32)
        self.observation_space = Box(-np.inf, np.inf, (WIDTHS[task],), np.float64)
        print(False)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-0.01, 0.01, WIDTHS[self.task])
        self.state[2] = 0.98
        if self.task in DRAWS_GLOBALLY:
            self.state[-3:] = np.random.uniform(-2, 2, 3)
        return self.state.copy(), {}

    def step(self, action):
        assert action.dtype == np.float32
        assert self.action_space.contains(action)
        self.state[:2] += 0.01 * action[:2]
        self.state[2] -= 0.05 * abs(action).mean()
        reward = float(self.state[2])
        info = {"per_timestep_reward": reward, "stand_reward": reward, "success_subtasks": 0}
        return self.state.copy(), reward, self.state[2] < 0.2, False, info

    def render(self):
        return np.full((256, 256, 3), 7, np.uint8)


for name in WIDTHS:
    gymnasium.register(
        f"h1-{name}-v0",
        entry_point=FakeHumanoidEnv,
        max_episode_steps=1000,
        kwargs={"task": name},
        disable_env_checker=True,
    )
