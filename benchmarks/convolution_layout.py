"""The encoder's four convolutions with channels first and channels last, forward and backward: processor time of one
thread.

python benchmarks/convolution_layout.py      writes benchmarks/results/convolution_layout.csv
"""

from __future__ import annotations

import csv
import statistics
import time
from pathlib import Path

import torch

from flashsac.core.encoders.pixels import ImageEncoder
from flashsac.types import Pixels

OUT = Path(__file__).parent / "results" / "convolution_layout.csv"
CASES = ((64, 40, 16), (64, 40, 32), (64, 84, 32))
"""batch, image size, channels"""
LAYOUTS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}
REPEATS = 7


def milliseconds(batch: int, size: int, channels: int, layout: torch.memory_format) -> tuple[float, float]:
    """Median of the forward pass alone, and of both."""
    pixels = Pixels(3, size, size, 3)
    convolutions = ImageEncoder(pixels, channels, 50, torch.float32).convolutions
    images = torch.randn(batch, *pixels.shape).contiguous(memory_format=layout)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS + 2):
        begun = time.process_time()
        x = images
        for convolution in convolutions:
            x = convolution(x).relu()
        forward = time.process_time()
        x.sum().backward()
        times[0].append(1e3 * (forward - begun))
        times[1].append(1e3 * (time.process_time() - begun))
    return statistics.median(times[0][2:]), statistics.median(times[1][2:])


def main() -> None:
    torch.set_num_threads(1)
    with OUT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["batch", "size", "channels", "layout", "forward_ms", "forward_and_backward_ms"])
        for case in CASES:
            for name, layout in LAYOUTS.items():
                writer.writerow([*case, name, *(f"{ms:.1f}" for ms in milliseconds(*case, layout))])
                file.flush()
    print(OUT.read_text(), end="")


if __name__ == "__main__":
    main()
