"""Do low-precision products blur what the actor learns from? The critic's value and its gradient by the action, against
fp32's.

python benchmarks/gradient_precision.py benchmarks/results/gradient-precision.csv RUN [RUN ...]      seconds each

At the newest observations of a run, one of each of its environments, and the actions that its policy draws there.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import torch
from torch.nn.functional import cosine_similarity

from flashsac.core.losses import squash
from flashsac.core.update import Learner
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.directory import read_config
from flashsac.training.precision import DTYPES
from flashsac.types import EnvSpec

COLUMNS = ("run", "step", "precision", "robots", "value", "value_error", "cosine", "cosine_p5")
CPU = torch.device("cpu")


def compare(run: Path) -> list[tuple]:
    task, config = read_config(run)
    checkpoint, _ = CheckpointStore(run, task).load()
    obs, saved = checkpoint.state["obs"], checkpoint.state["agent"]["learner"]
    actions = saved["actor"]["mean.weight"].shape[1]
    robots = len(obs["actor"])
    spec = EnvSpec(
        num_envs=robots,
        obs={group: rows.shape[1] for group, rows in obs.items()},
        action_dim=actions,
        action_low=(-1.0,) * actions,
        action_high=(1.0,) * actions,
        max_episode_steps=None,
        device=CPU,
    )
    noise = torch.randn(robots, actions, generator=torch.Generator().manual_seed(0))
    action, found = torch.empty(0), {}
    for precision in ("fp32", "bf16", "fp16"):
        learner = Learner(spec, config.agent, CPU, DTYPES[precision])
        learner.load_state_dict(saved)
        if precision == "fp32":
            action = squash(*learner.actor(obs["actor"], False), noise)[0].detach().requires_grad_()
        seen = torch.cat([obs.get("critic", obs["actor"]), action], -1)
        value = learner.value.mean(learner.critic(seen, False)).min(0).values
        found[precision] = value.detach(), torch.autograd.grad(value.sum(), action)[0]
    rows = []
    for precision in ("bf16", "fp16"):
        (exact, right), (value, gradient) = found["fp32"], found[precision]
        cosine = cosine_similarity(gradient, right, dim=1)
        numbers = exact.mean(), (value - exact).std(), cosine.mean(), cosine.quantile(0.05)
        rows.append((run.name, checkpoint.step, precision, robots, *(f"{number.item():.5f}" for number in numbers)))
    return rows


if __name__ == "__main__":
    with open(sys.argv[1], "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for run in sys.argv[2:]:
            writer.writerows(compare(Path(run)))
