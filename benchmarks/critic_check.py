"""Is a run's critic right, and does its gradient lead anywhere? On a simulator that can save its state (Genesis).

python benchmarks/critic_check.py benchmarks/results/critic-check.csv RUN [RUN ...]      half a minute each

First: what the critic expects of the policy, noise and entropy included, against what then comes. Second, from states
of the policy: one action is moved along the critic's gradient, or at random, and the policy goes on without noise; what
the critic expected of that and what it was worth.
"""

from __future__ import annotations

import csv
import dataclasses
import sys
from pathlib import Path

import torch
from torch import Tensor

from flashsac.core.losses import squash
from flashsac.core.reward_scale import RewardScale
from flashsac.core.update import Learner
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.directory import read_config
from flashsac.sims.make import make_env
from flashsac.types import Obs

ROBOTS, BEFORE, AHEAD, SEED = 256, 150, 100, 0
MOVES = (0.1, 0.3, 1.0)
COLUMNS = ("run", "step", "what", "length", "expected", "happened", "spread", "correlation")


class Check:
    """A run's newest networks, and robots to try them on. Values are on the critic's scale."""

    def __init__(self, run: Path):
        task, config = read_config(run)
        checkpoint, _ = CheckpointStore(run, task).load()
        self.step, saved, cpu = checkpoint.step, checkpoint.state["agent"], torch.device("cpu")
        self.env = make_env(task, dataclasses.replace(config.env, num_envs=ROBOTS, overlap=False))
        self.learner = Learner(self.env.spec, config.agent, cpu)
        self.learner.load_state_dict(saved["learner"])
        rewards = RewardScale(len(saved["reward_scale"]["returns"]), config.agent.discount, config.agent.value_max, cpu)
        rewards.load_state_dict(saved["reward_scale"])
        self.scale, self.discount = rewards.scale(), config.agent.discount

    def act(self, obs: Obs, noise: float) -> tuple[Tensor, Tensor]:
        mean, log_std = self.learner.actor(obs["actor"], False)
        action, log_prob = squash(mean, log_std, noise * torch.randn(ROBOTS, self.env.spec.action_dim))
        return action, log_prob

    def value(self, obs: Obs, action: Tensor) -> Tensor:
        seen = torch.cat([obs.get("critic", obs["actor"]), action], -1)
        return self.learner.value.mean(self.learner.critic(seen, False)).min(0).values

    def follow(self, obs: Obs, action: Tensor, noise: float) -> tuple[Tensor, Obs]:
        """What comes of an action, with the policy after it and the critic's word for what lies beyond; and where that
        leads."""
        temperature = self.learner.log_temperature.exp() * bool(noise)
        total, discount = torch.zeros(ROBOTS), torch.ones(ROBOTS)
        for _ in range(AHEAD):
            step = self.env.step(action)
            total += discount * step.reward / self.scale
            discount = discount * self.discount * ~(step.terminated | step.truncated)
            obs, (action, log_prob) = step.obs, self.act(step.obs, noise)
            total -= discount * temperature * log_prob
        return total + discount * self.value(obs, action), obs

    @torch.no_grad()
    def rows(self) -> list[tuple]:
        obs = self.env.reset(SEED)
        for _ in range(BEFORE):
            obs = self.env.step(self.act(obs, 1.0)[0]).obs
        here = self.env.state_dict()
        action, _ = self.act(obs, 1.0)
        found = [("the policy", 0.0, self.value(obs, action), self.follow(obs, action, 1.0)[0])]

        best, _ = self.act(obs, 0.0)
        self.env.load_state_dict(here)
        before, expected = self.follow(obs, best, 0.0)[0], self.value(obs, best)
        with torch.enable_grad():
            moved = best.clone().requires_grad_()
            (gradient,) = torch.autograd.grad(self.value(obs, moved).sum(), moved)
        for name, direction in (("along the gradient", gradient), ("at random", torch.randn_like(best))):
            for length in MOVES:
                action = (best + length * direction / direction.norm(dim=1, keepdim=True)).clamp(-1.0, 1.0)
                self.env.load_state_dict(here)
                change = self.follow(obs, action, 0.0)[0] - before
                found.append((name, length, self.value(obs, action) - expected, change))
        self.env.close()
        return [
            (
                self.step,
                what,
                length,
                *(
                    f"{float(x):.5f}"
                    for x in (said.mean(), was.mean(), was.std(), torch.corrcoef(torch.stack([said, was]))[0, 1])
                ),
            )
            for what, length, said, was in found
        ]


def main(out: str, *runs: str) -> None:
    torch.manual_seed(SEED)
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for run in runs:
            for row in Check(Path(run)).rows():
                print(Path(run).name, *row, flush=True)
                writer.writerow((Path(run).name, *row))


if __name__ == "__main__":
    main(*sys.argv[1:])
