"""How much of its velocity commands a policy of Playground's joystick tasks follows, in each direction.

python benchmarks/commands_followed.py runs/sims/go1 benchmarks/results/sims/go1-commands.csv
"""

from __future__ import annotations

import csv
import dataclasses
import sys
from pathlib import Path

import torch
from torch import Tensor

from flashsac.policies.find import locate_policy
from flashsac.sims.make import make_env
from flashsac.types import EnvSpec

ROBOTS, STEPS, SEED = 16, 500, 0


def asked_and_done(critic: Tensor, spec: EnvSpec, task: str) -> tuple[Tensor, Tensor]:
    """Forwards, sideways, turning. From what the critic sees, which is whole whatever is hidden from the actor."""
    assert spec.velocity is not None, f"{task} is no joystick task"
    first = spec.velocity[0]
    truth = first - 9  # angular velocity, acceleration, gravity, linear velocity; before it all that an actor may see
    # Go1's command comes last of that; that of the humanoids after velocity, angular velocity and gravity.
    command = slice(truth - 3, truth) if "Go1" in task else slice(9, 12)
    return critic[:, command], torch.cat([critic[:, first : first + 2], critic[:, truth + 2 : truth + 3]], 1)


def main(run: str, out: str) -> None:
    found = locate_policy(run, checkpoint="last")
    env = make_env(found.task, dataclasses.replace(found.env, num_envs=ROBOTS, privileged=True, overlap=False))
    obs, asked, done = env.reset(SEED), [], []
    for _ in range(STEPS):
        asked.append(asked_and_done(obs["critic"], env.spec, found.task)[0])
        step = env.step(found.policy.act(obs))
        done.append(asked_and_done(step.final_obs["critic"], env.spec, found.task)[1])
        obs = step.obs
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
        rows.append((found.task, name, f"{share:.3f}", f"{correlation:.3f}", ROBOTS * STEPS))
        print(f"{name:9} follows {share:.0%} of the command (correlation {correlation:.2f})")
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("task", "direction", "share", "correlation", "samples"), *rows])


if __name__ == "__main__":
    main(*sys.argv[1:3])
