"""How long one measurement of `--diagnostics.every` takes, and how much memory, on one thread of this CPU.

    python benchmarks/diagnostics_cost.py

It writes benchmarks/results/diagnostics-cost.csv. The networks have the sizes of a preset, on observations of 17 and
actions of 6 numbers. An update without compilation stands beside it.
"""

from __future__ import annotations

import csv
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from flashsac.config.presets import PRESETS
from flashsac.core.agent import Agent
from flashsac.core.diagnostics import diagnose
from flashsac.core.replay import Replay
from flashsac.types import EnvSpec, Step

OUT = Path(__file__).parent / "results" / "diagnostics-cost.csv"
COLUMNS = ("preset", "parameters_of_critics", "lanczos_iterations", "update_seconds", "seconds", "extra_mb")
CASES = (("laptop", 2), ("laptop", 30), ("single", 2), ("single", 30))


def filled_agent(preset: str) -> Agent:
    spec = EnvSpec(8, {"actor": 17}, 6, (-1.0,) * 6, (1.0,) * 6, None)
    config = PRESETS[preset].agent
    agent = Agent(spec, config, Replay(spec, 10_000, discount=0.99), total_updates=100)
    no, yes = torch.zeros(8).bool(), torch.ones(8).bool()
    for _ in range(1000):
        obs = {"actor": torch.randn(8, 17)}
        agent.observe(obs, torch.rand(8, 6), Step(obs, torch.randn(8), no, no, obs, yes, {}))
    return agent


def seconds_of(work) -> float:
    """Processor time, which other programs hardly change."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(preset: str, iterations: int) -> tuple:
    torch.set_num_threads(1)
    agent, generator = filled_agent(preset), torch.Generator().manual_seed(0)
    agent.update()
    update = seconds_of(agent.update)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = seconds_of(
        lambda: diagnose(agent.learner, *agent.draw_update(generator), generator=generator, iterations=iterations)
    )
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    parameters = sum(parameter.numel() for parameter in agent.learner.critic_parameters)
    return preset, parameters, iterations, f"{update:.3f}", f"{seconds:.2f}", f"{extra:.0f}"


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(*measure(sys.argv[1], int(sys.argv[2])), sep=",")
    else:
        with OUT.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(COLUMNS)
            for case in CASES:  # each in a process of its own: the memory is that of its peak
                done = subprocess.run(
                    [sys.executable, __file__, *map(str, case)], capture_output=True, text=True, check=True
                )
                file.write(done.stdout)
                print(done.stdout, end="")
