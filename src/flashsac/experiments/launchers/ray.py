"""Trials as tasks of a Ray cluster: one that runs, or one that is started on this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError, MissingExtra
from flashsac.experiments.launchers.local import cores
from flashsac.experiments.launchers.memory import trial_bytes
from flashsac.experiments.launchers.process import STOPPED, run_trial
from flashsac.experiments.trial import Trial


class RayLauncher:
    """One task for each trial, with a core, the memory it takes, and a GPU where the cluster has some."""

    def __init__(self, jobs: int | None = None, address: str | None = None):
        """`address` is that of a cluster that runs; without one, and without RAY_ADDRESS, a cluster is started here."""
        try:
            import ray
        except ImportError as error:
            raise MissingExtra('--launcher ray needs Ray: pip install "flashsac[ray]"') from error
        self._ray: Any = ray
        address = address or os.environ.get("RAY_ADDRESS")
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if address:
                ray.init(address=address, **quiet)
            else:
                ray.init(address="local", num_cpus=jobs or cores(), include_dashboard=False, **quiet)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise FlashSACError(f"no Ray cluster can be reached at {address or 'this machine'}: {error}") from error
        resources = ray.cluster_resources()
        self._gpus = 1 if resources.get("GPU") else 0
        self._memory = max((node["Resources"].get("memory", 0) for node in ray.nodes() if node["Alive"]), default=0)
        self._folder = str(Path.cwd())
        self._run: Any = ray.remote(max_retries=0)(_run)
        self.slots = jobs or int(resources.get("GPU") or resources.get("CPU", 1))

    def fits(self, trial: Trial, running: Sequence[Trial]) -> bool:
        """Ray decides: every task asks for the memory that its trial takes."""
        return True

    def start(self, trial: Trial) -> RayJob:
        memory = int(min(trial_bytes(trial), self._memory))
        task = self._run.options(num_cpus=1, num_gpus=self._gpus, memory=memory, name=trial.name)
        return RayJob(self._ray, task.remote(trial.to_json(), self._folder))

    def close(self) -> None:
        self._ray.shutdown()


class RayJob:
    """A task in the queue, or at work."""

    def __init__(self, ray: Any, task: Any):
        self._ray, self._task = ray, task

    def poll(self) -> int | None:
        if not self._ray.wait([self._task], timeout=0)[0]:
            return None
        try:
            return int(self._ray.get(self._task))
        except self._ray.exceptions.TaskCancelledError:
            return STOPPED
        except self._ray.exceptions.RayError:  # its worker or its node died
            return 1

    def stop(self) -> None:
        self._ray.cancel(self._task, force=False)

    def kill(self) -> None:
        self._ray.cancel(self._task, force=True)


def _run(trial: str, folder: str) -> int:
    return run_trial(Trial.from_json(trial), folder=folder)
