"""Train on your own Gymnasium environment: a point mass that must reach a target.

Any environment with Box observations and a bounded Box action space works. Hand over a function that makes one:
FlashSAC makes as many as it needs for training, evaluation and video.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

import flashsac


class Reach(gymnasium.Env):
    """A mass in the plane. It observes its position, velocity and target, and is pushed by a force."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (6,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.position, self.velocity = np.zeros(2), np.zeros(2)
        self.target = self.np_random.uniform(-1.0, 1.0, 2)
        return self._observe(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.velocity += 0.1 * action - 0.05 * self.velocity
        self.position += 0.1 * self.velocity
        distance = float(np.linalg.norm(self.target - self.position))
        fell_off = bool(np.abs(self.position).max() > 2.0)  # terminated: there is no future after this state
        return self._observe(), -distance, fell_off, False, {"success": distance < 0.1}

    def _observe(self) -> np.ndarray:
        return np.concatenate([self.position, self.velocity, self.target]).astype(np.float32)


def make_env() -> gymnasium.Env:
    return gymnasium.wrappers.TimeLimit(Reach(), max_episode_steps=100)  # a time limit truncates, it does not terminate


def main(run_dir: str = "runs/reach", preset: str = "laptop", steps: int = 20_000, **settings: Any) -> None:
    flashsac.check_env(flashsac.make_env(make_env))
    flashsac.train(make_env, preset=preset, steps=steps, run_dir=run_dir, **settings)
    print(flashsac.evaluate(run_dir, make_env, episodes=20).summary())


if __name__ == "__main__":
    main()
