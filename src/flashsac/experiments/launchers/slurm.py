"""Trials as jobs of a SLURM cluster, through submitit."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError, MissingExtra
from flashsac.experiments.launchers.memory import trial_bytes
from flashsac.experiments.launchers.process import run_trial
from flashsac.experiments.trial import Trial

DEFAULTS: dict[str, Any] = {"timeout_min": 24 * 60, "cpus_per_task": 1}
"""What a job asks for unless the user says otherwise; submitit's own limit would be five minutes."""

MOST_TIMEOUTS = 1_000_000
"""How often a job that reached its time limit is queued again. submitit's own limit is three."""


class SlurmLauncher:
    """One job for each trial. A job that reaches its time limit, or is preempted, is queued again and goes on."""

    def __init__(self, folder: Path, jobs: int | None = None, parameters: dict[str, Any] | None = None):
        """`parameters` are those of submitit's AutoExecutor, such as slurm_partition; `cluster` among them chooses
        another executor than slurm."""
        try:
            import submitit
        except ImportError as error:
            raise MissingExtra('--launcher slurm needs submitit: pip install "flashsac[slurm]"') from error
        self._parameters = DEFAULTS | (parameters or {})
        cluster = self._parameters.pop("cluster", "slurm")
        if cluster == "slurm" and shutil.which("sbatch") is None:
            raise FlashSACError(
                "--launcher slurm: there is no sbatch here. Run this on a machine that submits to SLURM; --slurm "
                "cluster=local tries it out without one."
            )
        self._executor = submitit.AutoExecutor(folder=folder, cluster=cluster, slurm_max_num_timeout=MOST_TIMEOUTS)
        self._folder = str(Path.cwd())
        self.slots = jobs or 100

    def fits(self, trial: Trial, running: Sequence[Trial]) -> bool:
        """SLURM decides: every job asks for the memory that its trial takes."""
        return True

    def start(self, trial: Trial) -> SlurmJob:
        memory = math.ceil(1.5 * trial_bytes(trial) / 1e9)
        try:
            self._executor.update_parameters(**{"name": "flashsac", "mem_gb": memory} | self._parameters)
        except (NameError, TypeError, ValueError) as error:  # NameError is submitit's for an unknown parameter
            raise FlashSACError(f"--slurm: {error}") from error
        return SlurmJob(self._executor.submit(_Task(), trial.to_json(), self._folder))

    def close(self) -> None:
        """Jobs end with their trials; there is nothing else to give back."""


class SlurmJob:
    """A job in the queue, or at work."""

    def __init__(self, job: Any):
        self._job = job

    def poll(self) -> int | None:
        if not self._job.done():
            return None
        from submitit.core.utils import FailedJobError, UncompletedJobError

        try:
            return int(self._job.result())
        except (FailedJobError, UncompletedJobError):  # cancelled, out of memory, a node that died
            return 1

    def stop(self) -> None:
        self._job.cancel(check=False)

    def kill(self) -> None:
        self._job.cancel(check=False)


class _Task:
    """What a job does. submitit calls `checkpoint` when SLURM is about to end the job."""

    def __call__(self, trial: str, folder: str) -> int:
        return run_trial(Trial.from_json(trial), folder=folder)

    def checkpoint(self, trial: str, folder: str) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, trial, folder)
