"""Trials as processes of this machine: as many as cores, memory and GPUs allow, one thread each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from flashsac.experiments.launchers.memory import trial_bytes
from flashsac.experiments.launchers.process import TrialProcess
from flashsac.experiments.trial import Trial
from flashsac.system.memory import available_memory


class LocalLauncher:
    """A launcher of as many trials at a time as there are cores, or GPUs where there are some."""

    def __init__(self, jobs: int | None = None, gpus: Sequence[str] | None = None, memory: float | None = None):
        """`gpus` are values of CUDA_VISIBLE_DEVICES (default: those that this process sees). `memory` is what all
        trials together may take, in bytes (default: nine tenths of what is free)."""
        self._gpus = visible_gpus() if gpus is None else list(gpus)
        self._memory = 0.9 * available_memory() if memory is None else memory
        self._jobs: dict[str, TrialProcess] = {}
        self._gpu_of: dict[str, str] = {}
        self.slots = jobs or len(self._gpus) or cores()

    def fits(self, trial: Trial, running: Sequence[Trial]) -> bool:
        """A trial that runs alone always starts: training itself refuses what cannot fit."""
        return not running or sum(map(trial_bytes, [*running, trial])) <= self._memory

    def start(self, trial: Trial) -> TrialProcess:
        environment = {}
        if self._gpus:
            busy = Counter(self._gpu_of[path] for path, job in self._jobs.items() if job.poll() is None)
            self._gpu_of[trial.path] = min(self._gpus, key=lambda gpu: busy[gpu])
            environment["CUDA_VISIBLE_DEVICES"] = self._gpu_of[trial.path]
        self._jobs[trial.path] = TrialProcess(trial, environment)
        return self._jobs[trial.path]

    def close(self) -> None:
        """Processes end with their trials; there is nothing else to give back."""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """The CUDA devices that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count()
    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return named[:count] if named else [str(index) for index in range(count)]
