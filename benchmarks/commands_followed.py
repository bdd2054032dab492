"""How much of its velocity commands a policy of Playground's joystick tasks follows, in each direction.

python benchmarks/commands_followed.py runs/sims/go1 benchmarks/results/sims/go1-commands.csv
"""

from __future__ import annotations

import csv
import dataclasses
import sys

import torch

import flashsac
from flashsac.sims.registry import make_env

ROBOTS, STEPS, SEED = 16, 500, 0
GYRO = slice(3, 6)
"""Columns of the actor's observation in all of these tasks."""


def main(run: str, out: str) -> None:
    policy = flashsac.load_policy(run, "last")
    env = make_env(policy.task, dataclasses.replace(policy.env_config(), num_envs=ROBOTS))
    assert env.spec.velocity is not None, f"{policy.task} is no joystick task"
    first = env.spec.velocity[0]
    # Go1's command comes last; that of the humanoids after velocity, gyro and gravity.
    command = slice(-3, None) if "Go1" in policy.task else slice(9, 12)
    obs, done, asked = env.reset(SEED), [], []
    for _ in range(STEPS):
        asked.append(obs["actor"][:, command].clone())
        obs = env.step(policy.act(obs)).obs
        done.append(torch.cat([obs["critic"][:, first : first + 2], obs["actor"][:, GYRO][:, 2:]], 1))
    env.close()
    rows = []
    for name, velocity, wanted in zip(
        ("forwards", "sideways", "turning"),
        torch.cat(done).unbind(1),
        torch.cat(asked).unbind(1),
        strict=True,
    ):
        correlation = torch.corrcoef(torch.stack([velocity, wanted]))[0, 1]
        share = (velocity * wanted).sum() / wanted.square().sum()
        rows.append((policy.task, name, f"{share:.3f}", f"{correlation:.3f}", ROBOTS * STEPS))
        print(f"{name:9} follows {share:.0%} of the command (correlation {correlation:.2f})")
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("task", "direction", "share", "correlation", "samples"), *rows])


if __name__ == "__main__":
    main(*sys.argv[1:3])
