"""What a smaller shadow map saves and changes when dm_control draws 84 x 84 pictures: processor time, values that look
different.

python benchmarks/shadow_map.py benchmarks/results/shadow_map.csv
"""

from __future__ import annotations

import csv
import sys
import time

import numpy as np

from flashsac.sims.envs.pixels import CAMERAS
from flashsac.system.gl import require_gl_backend

SIDE, FRAMES, STEPS_BETWEEN = 84, 20, 4
MAPS = (2048, 1024, 512, 256)
"""dm_control's own first: what the others are compared with."""
VISIBLE = 8
"""A difference of more than this, of 255."""


require_gl_backend()
from dm_control import suite  # noqa: E402  reads the backend when it is imported


def film(domain: str, task: str, shadow_map: int) -> tuple[np.ndarray, float]:
    """Frames of random actions from seed 0, and the milliseconds of processor time a frame takes."""
    env = suite.load(domain, task, task_kwargs={"random": 0})
    env.physics.model.vis.quality.shadowsize = shadow_map
    actions, limits = np.random.default_rng(0), env.action_spec()
    env.reset()
    frames, seconds = [], 0.0
    for frame in range(FRAMES + 1):
        for _ in range(STEPS_BETWEEN):
            env.step(actions.uniform(limits.minimum, limits.maximum))
        began = time.process_time()
        frames.append(env.physics.render(SIDE, SIDE, camera_id=CAMERAS.get(domain, 0)).astype(int))
        if frame:  # the first one makes the renderer
            seconds += time.process_time() - began
    env.physics.free()
    return np.stack(frames), 1000.0 * seconds / FRAMES


def main(path: str) -> None:
    with open(path, "w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("domain", "shadow_map", "ms", "percent_visibly_different"))
        for domain, task in dict(reversed(suite.ALL_TASKS)).items():
            reference = None
            for shadow_map in MAPS:
                frames, ms = film(domain, task, shadow_map)
                reference = frames if reference is None else reference
                different = 100.0 * (np.abs(frames - reference) > VISIBLE).mean()
                table.writerow((domain, shadow_map, f"{ms:.1f}", f"{different:.3f}"))
            file.flush()


if __name__ == "__main__":
    main(sys.argv[1])
