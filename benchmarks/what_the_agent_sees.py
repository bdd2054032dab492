"""A picture of one observation from images: its frames as they are, and as the update sees them, shifted.

python benchmarks/what_the_agent_sees.py [TASK ...]      writes benchmarks/results/vision-observation.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from matplotlib import pyplot as plt

from flashsac.config.schema import EnvConfig
from flashsac.core.transforms import RandomShift
from flashsac.sims.make import make_env
from flashsac.types import Batch

OUT = Path(__file__).parent / "results" / "vision-observation.png"
STEPS, SHIFT = 30, 4


def observation(task: str) -> Batch:
    """What random actions come to after a while, as a batch of one."""
    env = make_env(task, EnvConfig(num_envs=1, overlap=False))
    generator = torch.Generator().manual_seed(0)
    obs = env.reset(0)
    for _ in range(STEPS):
        before, action = obs, 2 * torch.rand(1, env.spec.action_dim, generator=generator) - 1
        obs = env.step(action).obs
    env.close()
    return Batch(before, action, torch.zeros(1), torch.ones(1), obs)


def main(tasks: list[str]) -> None:
    figure, axes = plt.subplots(len(tasks), 6, figsize=(9.6, 1.75 * len(tasks)), squeeze=False)
    transform = RandomShift(SHIFT)
    for row, task in zip(axes, tasks, strict=True):
        batch = observation(task)
        draw = torch.tensor([[[-SHIFT, SHIFT]], [[0, 0]]])  # as far as it goes: up and right
        images = torch.cat([batch.obs["pixels"][0], transform(batch, draw).obs["pixels"][0]])
        for axis, frame in zip(row, images.split(3), strict=True):
            axis.imshow(frame.permute(1, 2, 0).numpy())
            axis.set_xticks([])
            axis.set_yticks([])
        row[0].set_ylabel(task.split(":")[1], fontsize=8)
    for axis, title in zip(axes[0], ("oldest", "", "newest", "shifted: oldest", "", "newest"), strict=True):
        axis.set_title(title, fontsize=8)
    figure.tight_layout()
    figure.savefig(OUT, dpi=110)
    print(f"wrote {OUT}")


if __name__ == "__main__":
    main(sys.argv[1:] or ["dmc-vision:walker-run", "dmc-vision:reacher-hard", "dmc-vision:cartpole-swingup_sparse"])
