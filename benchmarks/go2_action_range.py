"""How far may Go2's actions reach? What an untrained policy returns tells which range a published curve began with.

.venvs/genesis/bin/python benchmarks/go2_action_range.py benchmarks/results/go2-action-range.csv      seven minutes

Robots begin still, just above the ground, or dropped from 0.42 m as in Genesis' example. Actions to ±0 do nothing.
"""

from __future__ import annotations

import csv
import sys

import torch

from flashsac.config.schema import AgentConfig, EnvConfig
from flashsac.core.update import Learner
from flashsac.sims.make import make_env
from flashsac.tasks.genesis import go2 as genesis_go2

ROBOTS, SEEDS, HEIGHTS, LIMITS = 32, 10, (0.35, 0.42), (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0)


@torch.no_grad()
def episode(env, seed: int) -> tuple[float, float]:
    """Mean return and length of the first episodes of a deterministic policy that nothing has been learned by."""
    torch.manual_seed(seed)
    actor = Learner(env.spec, AgentConfig(), torch.device("cpu")).actor
    obs, going = env.reset(seed), torch.ones(ROBOTS, dtype=torch.bool)
    total, length = torch.zeros(ROBOTS), torch.zeros(ROBOTS)
    while going.any():
        step = env.step(torch.tanh(actor(obs["actor"], False)[0]))
        total += torch.where(going & step.valid, step.reward, 0.0)
        length += going
        going &= ~(step.terminated | step.truncated | ~step.valid)
        obs = step.obs
    return total.mean().item(), length.mean().item()


def main(out: str) -> None:
    torch.set_num_threads(1)
    rows = []
    for height in HEIGHTS:
        genesis_go2.STARTS["still"] = genesis_go2.STARTS["still"]._replace(height=height)
        env = make_env("genesis:go2-walk_easy", EnvConfig(num_envs=ROBOTS, options=("start=still",)))
        for limit in LIMITS:
            env._limits.fill_(limit)
            found = [episode(env, seed) for seed in range(SEEDS)]
            rows += [
                (height, limit, seed, f"{value:.4f}", f"{length:.1f}") for seed, (value, length) in enumerate(found)
            ]
            returns, lengths = (sum(values) / SEEDS for values in zip(*found, strict=True))
            print(f"from {height} m, actions to ±{limit:g}: return {returns:.3f}, {lengths:.0f} steps", flush=True)
        env.close()
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("start_height", "limit", "seed", "return", "length"), *rows])


if __name__ == "__main__":
    main(*sys.argv[1:])
