"""What it is worth to keep freed memory, and large pages: updates in processes of their own, which take turns.

It takes five minutes for laptop and single:

    python benchmarks/freed_memory.py benchmarks/results/freed_memory.csv [PRESET ...]
"""

from __future__ import annotations

import csv
import os
import resource
import statistics
import subprocess
import sys
import time

TURNS, SECONDS = 3, 6.0
VARIANTS = ("as it is", "kept", "kept, large pages")


def measure(preset: str, variant: str) -> None:
    """In the child: milliseconds and page faults of an update, warm."""
    from flashsac.bench.measure import Bench
    from flashsac.system.memory import keep_freed_memory, use_large_pages

    if "large" in variant:
        use_large_pages()
    if "kept" in variant:
        keep_freed_memory()
    import torch

    cycle = Bench().learning_cycle(preset, torch.float32, compiled=True)  # two updates
    for _ in range(5):
        cycle()
    faults, start, count = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter(), 0
    while time.perf_counter() - start < SECONDS:
        cycle()
        count += 2
    passed = time.perf_counter() - start
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    print(f"{1000 * passed / count:.2f} {faults / count:.0f}")


def main(out: str, *presets: str) -> None:
    rows = []
    environment = {name: value for name, value in os.environ.items() if name != "THP_MEM_ALLOC_ENABLE"}
    for preset in presets or ("laptop", "single"):
        found: dict[str, list[tuple[float, float]]] = {variant: [] for variant in VARIANTS}
        for _ in range(TURNS):
            for variant in VARIANTS:
                command = [sys.executable, __file__, "--child", preset, variant]
                done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                milliseconds, faults = map(float, done.stdout.split())
                found[variant].append((milliseconds, faults))
                print(f"{preset:9} {variant:18} {milliseconds:8.1f} ms  {faults:8.0f} page faults", flush=True)
        before = statistics.median(milliseconds for milliseconds, _ in found[VARIANTS[0]])
        for variant in VARIANTS:
            milliseconds, faults = (statistics.median(values) for values in zip(*found[variant], strict=True))
            rows.append((preset, variant, f"{milliseconds:.2f}", f"{faults:.0f}", f"{milliseconds / before:.3f}"))
    with open(out, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("preset", "memory", "update_ms", "page_faults", "ratio"), *rows])


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        measure(*sys.argv[2:4])
    else:
        main(*sys.argv[1:])
