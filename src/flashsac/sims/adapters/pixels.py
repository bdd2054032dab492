"""dm_control from images, in the setting of DrQ-v2: frames of 84 x 84, three to an observation, every action twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashsac.sims.adapters.dmc import highest_return
from flashsac.sims.simulator import EnvRequest, Package, Simulator, Suite, Task, extra

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv

ACTION_REPEAT = 2
IN_A_WORKER, IN_THIS_PROCESS = 400.0, 80.0
"""Megabytes of an environment. A worker holds MuJoCo, a renderer and the libraries around them, 360 when measured. This
process holds only the walker and its renderer (a dog: 290)."""


def _megabytes(task: Task, request: EnvRequest) -> float:
    if request.overlap:
        return IN_A_WORKER
    return IN_THIS_PROCESS if task.megabytes is None else task.megabytes


def make(task: Task, request: EnvRequest) -> VecEnv:
    from flashsac.sims.envs.pixels import make_pixels

    return make_pixels(task, request, ACTION_REPEAT)


SIMULATOR = Simulator(
    "pixels",
    make,
    packages={"dmc-vision": Package("dm_control", extra("dmc"))},
    suites=(
        Suite(
            "dmc-vision",
            "DeepMind Control Suite, from pixels",
            "vision",
            0.99,
            images="84x84x9",
            action_repeat=ACTION_REPEAT,
            highest_return=highest_return,
        ),
    ),
    distributions=("dm_control", "mujoco"),
    megabytes_per_env=_megabytes,
    evaluate_apart=True,  # a renderer that aborts during evaluation must not take the run with it
)
