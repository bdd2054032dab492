"""Environments for the tests of workers; in a module of their own, because workers import them by name."""

from __future__ import annotations

import dataclasses
import os
import sys
import time

import numpy as np

from flashsac.errors import MissingExtra
from flashsac.sims.envs.gymnasium import GymEnv
from flashsac.types import EnvSpec
from tests import toy_envs


class DescribedPoint(GymEnv):
    """The toy environments, as a worker wants them."""

    def __init__(self, name: str = "PointEnv", high: float = 1.0):
        options = {"high": high} if name == "PointEnv" else {}
        env = getattr(toy_envs, name)(**options)
        super().__init__(env)
        groups = {"actor": 2} | ({"critic": 3} if name == "Privileged" else {})
        self.spec = EnvSpec(1, groups, 2, (-1.0, -1.0), (high, high), 20)

    def render(self) -> np.ndarray:
        return np.full((4, 6, 3), 7, np.uint8)


class Reporting(DescribedPoint):
    """Reports a metric of its own."""

    def __init__(self, name: str):
        super().__init__(name)
        self.spec = dataclasses.replace(self.spec, metrics=("height",))

    def step(self, action):
        outcome = super().step(action)
        outcome[-1]["height"] = 2.5
        return outcome


class Faulty(DescribedPoint):
    """Goes wrong in its third step, in the way asked for."""

    def __init__(self, fault: str):
        super().__init__()
        self.fault, self.steps = fault, 0

    def step(self, action):
        self.steps += 1
        if self.steps == 3:
            if self.fault == "raise":
                raise ZeroDivisionError("the arm is on fire")
            if self.fault == "sys.exit":
                sys.exit(0)
            if self.fault == "exit":
                os._exit(5)
            if self.fault == "hang":
                time.sleep(3600)
        return super().step(action)


class Threads(DescribedPoint):
    """Reports what its process was born into."""

    def step(self, action):
        import torch

        outcome = super().step(action)
        outcome[-1].update(threads=torch.get_num_threads(), omp=int(os.environ["OMP_NUM_THREADS"]), pid=os.getpid())
        return outcome


def cannot_be_made() -> DescribedPoint:
    raise MissingExtra("the robot is on holiday")


def broken_on_making() -> DescribedPoint:
    raise KeyError("no such robot")
