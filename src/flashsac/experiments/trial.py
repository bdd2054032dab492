"""One trial of a sweep: its command, what its run directory says of it, and its start in a process of its own."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import filelock

from flashsac.config.checks import with_time_to_learn
from flashsac.config.schema import PresetName, TrainConfig
from flashsac.errors import RunDirectoryError
from flashsac.experiments.grouping import BOOKKEEPING
from flashsac.experiments.settings import config_of, differences, flags
from flashsac.runs import layout
from flashsac.runs.directory import LOCK, read_config, read_recorded_settings, read_task_and_seed
from flashsac.runs.metrics_file import read_metrics
from flashsac.sims.catalog import find_task
from flashsac.system.files import remove_tree

MACHINE = {"device", "compile"}
"""Settings that say how this machine computes."""
ENVIRONMENT_DECIDES = {"env.num_envs", "env.with_state", "env.max_episode_steps", "env.image_size"}
"""Settings that a user's own environment may have replaced in the record of its run."""
OF_BASELINES_TOO = {"video", "max_invalid", "env.engine", "env.max_episode_steps", "env.blind", "env.options"}
"""Settings of a sweep that a baseline takes where they are given, besides its length and evaluation."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """One run of a sweep."""

    task: str
    variant: str
    seed: int
    path: str
    """The run directory."""
    log: str
    """The file that takes the output of its process."""
    preset: PresetName | None
    settings: dict[str, Any]
    """The settings that differ from the preset, by flat names such as agent.target_std."""
    algorithm: str | None = None
    """The baseline to train, or None for FlashSAC."""

    @property
    def name(self) -> str:
        return f"{self.task} {self.variant} seed {self.seed}"

    @property
    def run(self) -> Path:
        return Path(self.path)

    @property
    def lock(self) -> Path:
        """The file that the process of this trial keeps locked. It lies beside the output, since a run directory must
        be empty when its run begins."""
        return Path(self.log).with_suffix(".lock")

    def config(self) -> TrainConfig:
        """All its settings."""
        config = config_of(self.task, self.preset, self.settings)
        return with_time_to_learn(dataclasses.replace(config, seed=self.seed, run_dir=self.path))

    def command(self, *, resume: bool = False) -> list[str]:
        """The arguments of `flashsac` that begin this trial, or go on with it."""
        if resume:
            return ["resume", self.path, "--task", self.task]
        place = ["--seed", str(self.seed), "--run-dir", self.path]
        if self.algorithm is not None:
            return ["baseline", self.algorithm, self.task, *place, *flags(self._baseline_settings())]
        preset = ["--preset", self.preset] if self.preset else []
        return ["train", self.task, *preset, *place, *flags(self.settings)]

    def _baseline_settings(self) -> dict[str, Any]:
        """What a baseline shares with the other trials of its sweep: its length, its evaluation and its task."""
        config = self.config()
        shared = {"steps": config.steps, "eval.every": config.eval.every, "eval.episodes": config.eval.episodes}
        given = {name: value for name, value in self.settings.items() if name in OF_BASELINES_TOO}
        return {name: value for name, value in (shared | given).items() if value is not None}

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Trial:
        return cls(**json.loads(text))


def is_finished(trial: Trial) -> bool:
    """True if the run has reached its steps and has nothing left to do."""
    steps = trial.config().steps
    if trial.algorithm is not None:
        rows = read_metrics(trial.run / layout.METRICS)
        return bool(rows) and rows[-1]["step"] >= steps
    newest = next(iter(layout.checkpoint_folders(trial.run / layout.CHECKPOINTS)), None)
    if newest is None or layout.step_of(newest) < steps:
        return False
    from flashsac.runs.checkpoint import CheckpointStore  # imports torch

    return CheckpointStore(trial.run, trial.task).reached(steps) is not None


def is_busy(trial: Trial) -> bool:
    """True if a process works on this trial now, of whichever driver."""
    if not trial.lock.exists():
        return False
    try:
        with filelock.FileLock(trial.lock, timeout=0):
            return False
    except filelock.Timeout:
        return True


def check_same_settings(trial: Trial) -> None:
    """Refuse a run directory whose run has other settings than the trial: its results would be of something else."""
    if not (trial.run / layout.CONFIG).exists() and not layout.checkpoint_folders(trial.run / layout.CHECKPOINTS):
        return
    found = _differences(trial)
    if found:
        raise RunDirectoryError(
            f"{trial.path} holds a run with other settings: {'; '.join(found)}. Choose another --out, or delete this run."
        )


def _differences(trial: Trial) -> list[str]:
    if trial.algorithm is not None:
        task, seed = read_task_and_seed(trial.run)
        steps, wanted = read_recorded_settings(trial.run).get("steps"), trial.config().steps
        pairs = (("task", task, trial.task), ("seed", seed, trial.seed), ("steps", steps, wanted))
        return [f"{name} is {value}, not {other}" for name, value, other in pairs if value != other]
    task, config = read_config(trial.run)
    ignored = (BOOKKEEPING - {"seed"}) | MACHINE | (set() if find_task(trial.task) else ENVIRONMENT_DECIDES)
    other_task = [] if task == trial.task else [f"the task is {task}, not {trial.task}"]
    return other_task + differences(trial.config(), config, ignored)


def next_command(trial: Trial) -> list[str] | None:
    """The arguments of `flashsac` for what is left to do; None if the trial is finished.

    Only the process that holds the trial's lock may call this. A run that was killed before its first checkpoint cannot
    go on: it is deleted and begun again."""
    check_same_settings(trial)
    if is_finished(trial):
        return None
    if layout.checkpoint_folders(trial.run / layout.CHECKPOINTS):
        return trial.command(resume=True)
    if trial.run.exists():
        try:
            with filelock.FileLock(trial.run / LOCK, timeout=0):
                remove_tree(trial.run)
        except filelock.Timeout:
            raise RunDirectoryError(f"another process is training in {trial.path}. Wait for it, or stop it.") from None
    return trial.command()


def last_lines(trial: Trial, count: int = 12) -> list[str]:
    """The end of what its process has printed."""
    try:
        text = Path(trial.log).read_bytes()[-20_000:].decode(errors="replace")
    except FileNotFoundError:
        return []
    return [line for line in text.splitlines() if line.strip()][-count:]
