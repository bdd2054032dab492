"""Environments for tests, made the way a user would make them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces


class PointEnv(gymnasium.Env):
    """Move a point to the origin; the best action is known."""

    metadata = {"render_modes": []}

    def __init__(self, nan_rate: float = 0.0, limit: int = 20, low: float = -1.0, high: float = 1.0):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(low, high, (2,), np.float32)
        self.nan_rate, self.limit = nan_rate, limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1, 1, 2)
        self.steps = 0
        return self.position.astype(np.float32), {}

    def step(self, action):
        self.position = np.clip(self.position + 0.2 * action, -2, 2)
        self.steps += 1
        distance = float(np.linalg.norm(self.position))
        obs = self.position.astype(np.float32)
        if self.np_random.random() < self.nan_rate:
            obs = np.full_like(obs, np.nan)
        return obs, -distance, False, self.steps >= self.limit, {"is_success": distance < 0.2}


class JudgedAtTheEnd(PointEnv):
    """Speaks of success only when an episode ends, as many Gymnasium environments do. Those that begin on the right succeed, after
    three steps; the others fail, after four."""

    def step(self, action):
        if self.steps == 0:
            self.limit = 3 if self.position[0] > 0 else 4
        obs, reward, terminated, truncated, _ = super().step(action)
        return (
            obs,
            reward,
            terminated,
            truncated,
            {"is_success": self.limit == 3, "in_words": "done"} if truncated else {},
        )


def make_point():
    return PointEnv()


def make_nan():
    return PointEnv(nan_rate=0.2)


def make_rarely_nan():
    return PointEnv(nan_rate=0.002)


class Breaks(PointEnv):
    """Works for a while, then throws what a bug in a user's own code would."""

    def __init__(self, after: int = 300):
        super().__init__()
        self.left = after

    def step(self, action):
        self.left -= 1
        if self.left < 0:
            raise ZeroDivisionError("a bug of the environment's own")
        return super().step(action)


class Quits(PointEnv):
    """Works for a while, then does what ends a program: in a step, or in the reset after one."""

    def __init__(self, how: BaseException | None = None, after: int = 300, where: str = "step"):
        super().__init__()
        self.how, self.left, self.where = how or SystemExit(0), after, where

    def step(self, action):
        self.left -= 1
        if self.left < 0 and self.where == "step":
            raise self.how
        return super().step(action)

    def reset(self, **kwargs):
        if self.left < 0 and self.where == "reset":
            raise self.how
        return super().reset(**kwargs)


class Outliers(PointEnv):
    """Returns these rewards in these steps, counted from the first episode."""

    def __init__(self, **rewards: float):
        super().__init__()
        self.rewards, self.total = {int(step[1:]): reward for step, reward in rewards.items()}, 0

    def step(self, action):
        obs, reward, *rest = super().step(action)
        self.total += 1
        return obs, self.rewards.get(self.total, reward), *rest


class Hangs(PointEnv):
    """Hangs in a step for as long as a file is there, and says so in another one."""

    def step(self, action):
        hangs = Path(os.environ["HANGS"])
        while hangs.exists():
            hangs.with_name("reached").touch()
            time.sleep(0.05)
        return super().step(action)


class Telling(PointEnv):
    """Says in a file that it is being stepped, to whoever waits for that in another process."""

    def step(self, action):
        Path(os.environ["STEPPED"]).touch()
        return super().step(action)


class WrongShape(PointEnv):
    def step(self, action):
        obs, *rest = super().step(action)
        return (np.append(obs, 0.0), *rest)


class Unbounded(PointEnv):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)


class Forgetful(PointEnv):
    """Draws from a generator nobody can save."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = np.random.default_rng().uniform(-1, 1, 2)
        return self.position.astype(np.float32), {}


class Privileged(PointEnv):
    """A dict observation with a group for the critic alone."""

    def __init__(self):
        super().__init__()
        box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = spaces.Dict(
            {"state": box, "privileged_state": spaces.Box(-np.inf, np.inf, (3,), np.float32)}
        )

    def _wrap(self, obs):
        return {"state": obs, "privileged_state": np.append(obs, self.steps).astype(np.float32)}

    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        return self._wrap(obs), info

    def step(self, action):
        obs, *rest = super().step(action)
        return (self._wrap(obs), *rest)


class PixelPoint(PointEnv):
    """The same, but seen by a camera; `state` adds the numbers."""

    def __init__(self, state: bool = False, size: int = 16, channels_last: bool = True):
        super().__init__()
        self.size, self.state, self.channels_last = size, state, channels_last
        image = spaces.Box(0, 255, (size, size, 3) if channels_last else (3, size, size), np.uint8)
        self.observation_space = spaces.Dict({"camera": image, "numbers": self.observation_space}) if state else image

    def look(self, numbers):
        pixel = np.arange(self.size) / (self.size - 1) * 4 - 2
        x, y = np.meshgrid(pixel, pixel)
        light = np.exp(-4 * ((x - self.position[0]) ** 2 + (y - self.position[1]) ** 2))
        image = np.stack([255 * light, 0 * light, 255 - 255 * light], -1).astype(np.uint8)
        image = image if self.channels_last else np.moveaxis(image, -1, 0)
        return {"camera": image, "numbers": numbers} if self.state else image

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return self.look(obs), info

    def step(self, action):
        obs, *rest = super().step(action)
        return (self.look(obs), *rest)


def make_pixel_point():
    return PixelPoint()
