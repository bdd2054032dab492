"""The type of the matrix products: chosen by measurement, because some processors only emulate the low ones."""

from __future__ import annotations

import functools
import time

import torch

from flashsac.config.schema import Precision

DTYPES: dict[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def fastest_precision(device: torch.device) -> Precision:
    """bf16, or where that is missing fp16, if it multiplies matrices clearly faster than fp32; some CPUs only emulate
    them."""
    seconds = product_seconds(device)
    worthwhile: list[Precision] = [name for name in ("bf16", "fp16") if seconds[name] < 0.8 * seconds["fp32"]]
    return worthwhile[0] if worthwhile else "fp32"


def precision_notes(device: torch.device, precision: str) -> list[str]:
    """What to say of a run's precision; it may have been chosen on another device."""
    if precision == "fp32":
        return []
    seconds = product_seconds(device)
    ratio = seconds[precision] / seconds["fp32"]
    slow = f"note: products in {precision} take {ratio:.0f} times as long as in fp32 here; a run keeps the precision it began with"
    return [f"matrix products in {precision} (for full precision: --precision fp32)", *([slow] if ratio > 2 else [])]


@functools.cache  # measured again on a busy machine, it could contradict what was chosen
def product_seconds(device: torch.device) -> dict[str, float]:
    """The best of several timings of one matrix product in each type. They take turns, so that a busy moment does not
    decide."""
    size = 512 if device.type == "cpu" else 4096  # large enough that launching is not what is measured
    operands = {name: torch.ones(size, size, device=device, dtype=dtype) for name, dtype in DTYPES.items()}
    best = dict.fromkeys(DTYPES, float("inf"))
    stop = time.perf_counter() + 0.2
    turn = 0
    while turn < 8 or time.perf_counter() < stop:
        for name, x in operands.items():
            if turn >= 2 and best[name] > 3 * best["fp32"]:
                continue  # hopeless, and slow
            start = time.perf_counter()
            (x @ x)[0, 0].item()  # .item() waits for the device
            best[name] = min(best[name], time.perf_counter() - start)
        turn += 1
    return best
