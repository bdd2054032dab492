"""Train on your own vectorised simulator: a thousand masses that must hold their height, all stepped in one call.

A `VecEnv` steps a batch of environments with tensors. It resets what has ended by itself, and reports the observation
before the reset as `final_obs`. `autoreset` does both.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import flashsac
from flashsac.sims.base import Unsaved, autoreset, first_obs
from flashsac.types import EnvSpec, Obs, Step

LIMIT = 200


class Hover(Unsaved):
    """Masses with a thruster. Each observes its height above the target and its vertical speed."""

    def __init__(self, num_envs: int = 1000):
        bounds = (0.0,), (20.0,)  # newtons; the agent acts in [-1, 1]
        self.spec = EnvSpec(num_envs, {"actor": 2}, 1, *bounds, max_episode_steps=LIMIT)

    def reset(self, seed: int) -> Obs:
        self._random = torch.Generator().manual_seed(seed)
        self._state = torch.zeros(self.spec.num_envs, 2)
        self._age = torch.zeros(self.spec.num_envs, dtype=torch.int64)
        return first_obs(self._start(torch.arange(self.spec.num_envs)))

    def step(self, action: Tensor) -> Step:
        thrust = 10.0 * (action[:, 0].clamp(-1.0, 1.0) + 1.0)
        self._state[:, 1] += 0.02 * (thrust - 9.81)
        self._state[:, 0] += 0.02 * self._state[:, 1]
        self._age += 1
        height = self._state[:, 0].abs()
        reward = torch.exp(-height)
        return autoreset({"actor": self._state}, reward, height > 3.0, self._age >= LIMIT, {}, self._start)

    def close(self) -> None:
        """Release what the simulator holds; here nothing."""

    def _start(self, envs: Tensor) -> Obs:
        self._state[envs, 0] = 2.0 * torch.rand(len(envs), generator=self._random) - 1.0
        self._state[envs, 1] = 0.0
        self._age[envs] = 0
        return {"actor": self._state[envs]}


def main(run_dir: str = "runs/hover", preset: str = "laptop", steps: int = 400_000, **settings: Any) -> None:
    flashsac.check_env(Hover(8))
    defaults: dict[str, Any] = {"env": {"num_envs": 1000}, "agent": {"updates_per_transition": 0.01}}
    flashsac.train(Hover, preset=preset, steps=steps, run_dir=run_dir, **(defaults | settings))
    print(flashsac.evaluate(run_dir, Hover, episodes=20).summary())


if __name__ == "__main__":
    main()
