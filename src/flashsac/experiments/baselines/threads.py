"""CPU threads of the libraries. JAX reads its settings once, when it is imported."""

from __future__ import annotations

import os

import torch


def limit_threads(threads: int | None) -> None:
    """Let the networks use so many threads: by default what OMP_NUM_THREADS says, which torch reads by itself. JAX
    computes on the CPU, unless JAX_PLATFORMS says otherwise."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if threads is not None:
        torch.set_num_threads(threads)
    given = str(threads or os.environ.get("OMP_NUM_THREADS", ""))
    if given.isdigit():
        os.environ.setdefault("NPROC", given)  # the size of XLA's thread pools
