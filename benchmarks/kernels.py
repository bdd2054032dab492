"""Where the time of a compiled update goes, kernel by kernel.

python benchmarks/kernels.py benchmarks/results/kernels.csv [PRESET ...]      a few minutes, on a quiet machine

All is compiled anew, with a timer in every kernel.
"""

from __future__ import annotations

import csv
import os
import sys
import tempfile
import time
from collections import defaultdict

import torch

CYCLES = 100
PARTS = {
    "matrix products": "bmm",
    "BatchNorm and ReLU, backward": "threshold_backward",
    "BatchNorm and ReLU, forward": "relu",
    "losses, target distribution": "softmax",
    "actions": "tanh",
    "Adam, projection, target average": "_fma_",
}
"""By what is in a kernel's name, in this order: the compiler puts Adam into the kernel that a gradient comes from,
where it can."""
REST = "rounding to low precision, inputs, all else"


def part_of(name: str) -> str:
    return next((part for part, word in PARTS.items() if word in name), REST)


def measure(preset: str, precision: str) -> list[tuple[str, str, str, float]]:
    """(preset, precision, part, ms of one update); the actor learns in every second one."""
    from flashsac.bench.measure import Bench
    from flashsac.system.memory import keep_freed_memory
    from flashsac.training.precision import DTYPES

    keep_freed_memory()
    cycle = Bench().learning_cycle(preset, DTYPES[precision], compiled=True)  # two updates
    for _ in range(10):
        cycle()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        start = time.perf_counter()
        for _ in range(CYCLES):
            cycle()
        passed = time.perf_counter() - start
    spent: dict[str, float] = defaultdict(float)
    for event in profile.key_averages():
        if event.key.startswith(("graph", "cpp_fused")) or "bmm" in event.key:
            spent[part_of(event.key)] += event.self_cpu_time_total / 1e6
            print(f"{event.self_cpu_time_total / 2e3 / CYCLES:8.3f} ms  {part_of(event.key)[:20]:20}  {event.key}")
    spent["calling them"] = passed - sum(spent.values())
    return [(preset, precision, part, 1e3 * seconds / CYCLES / 2) for part, seconds in spent.items()]


def main(out: str, *presets: str) -> None:
    import torch._inductor.config

    from flashsac.training.precision import fastest_precision

    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()  # what is there has no timers
    torch._inductor.config.cpp.enable_kernel_profile = True
    precision = fastest_precision(torch.device("cpu"))
    rows = [row for preset in presets or ("laptop", "single") for row in measure(preset, precision)]
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("preset", "precision", "part", "ms"))
        writer.writerows((*row[:3], f"{row[3]:.3f}") for row in rows)
    for row in rows:
        print(f"{row[0]:9} {row[1]:5} {row[2]:45} {row[3]:8.2f} ms")


if __name__ == "__main__":
    main(*sys.argv[1:])
