"""One trial of a sweep: its command, what its run directory says of it, and its start in a process of its own."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock

from flashsac.config.checks import coerce, with_time_to_learn
from flashsac.config.schema import EnvConfig, PresetName, TrainConfig, from_dict
from flashsac.errors import FlashSACError, RunDirectoryError
from flashsac.experiments.grouping import BOOKKEEPING, LABEL
from flashsac.experiments.settings import Settings, changed, config_of, differences, flags
from flashsac.runs import layout
from flashsac.runs.directory import LOCK, read_config, read_record
from flashsac.runs.seal import MALFORMED
from flashsac.sims.catalog import find_task
from flashsac.system.files import remove_tree

if TYPE_CHECKING:
    from flashsac.experiments.baselines.algorithms import Algorithm

MACHINE = {"device", "compile"}
"""Settings that say how this machine computes."""
ENVIRONMENT_DECIDES = {"env.num_envs", "env.with_state", "env.max_episode_steps", "env.image_size"}
"""Settings that a user's own environment may have replaced in the record of its run."""
SHARED = ("steps", "eval.every", "eval.episodes")
"""Settings that a baseline has from its sweep in any case: its length and its evaluation."""
OF_BASELINES_TOO = {"device", "video", "max_invalid", "env.engine", "env.max_episode_steps", "env.blind", "env.options"}
"""Settings of a sweep that a baseline takes where they are given."""


def check_of_baseline(where: str, name: str, settings: Settings) -> None:
    """Refuse settings of one baseline that no baseline has. They would make no difference, under a name of their
    own."""
    if others := sorted(settings.keys() - {*SHARED, *OF_BASELINES_TOO}):
        known = ", ".join((*SHARED, *sorted(OF_BASELINES_TOO)))
        raise FlashSACError(f"{where}: {name} is a baseline, which has no {', '.join(others)}. It takes {known}.")


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

    @functools.cached_property
    def config(self) -> TrainConfig:
        """All its settings. They are made once, because a driver asks for them at every look."""
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
        evaluation = self.config.eval
        shared = dict(zip(SHARED, (self.config.steps, evaluation.every, evaluation.episodes), strict=True))
        given = {name: value for name, value in self.settings.items() if name in OF_BASELINES_TOO}
        if "device" in given and not _algorithm(self).takes_device:
            del given["device"]
        return {name: value for name, value in (shared | given).items() if value is not None}

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Trial:
        return cls(**json.loads(text))


def is_finished(trial: Trial) -> bool:
    """True if the run has a checkpoint of its last step, and no evaluation is left to do. Its replay is not read: a
    driver asks this often."""
    steps = trial.config.steps
    newest = next(iter(layout.checkpoint_folders(trial.run / layout.CHECKPOINTS)), None)
    if newest is None or layout.step_of(newest) < steps:
        return False
    if trial.algorithm is not None:
        from flashsac.experiments.baselines import checkpoint  # imports torch

        return checkpoint.reached(trial.run, trial.task, steps)
    from flashsac.runs.checkpoint import CheckpointStore  # imports torch

    return CheckpointStore(trial.run, trial.task).reached(steps, replay=False) is not None


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
    """One phrase for every setting in which the recorded run is not this trial's."""
    record = read_record(trial.run)
    algorithm, wanted = record.get("algorithm", LABEL), trial.algorithm or LABEL
    if algorithm != wanted:
        return [f"the algorithm is {algorithm}, not {wanted}"]
    if trial.algorithm is not None:
        return _other_task(trial, record["task"]) + _differences_of_baseline(trial, record)
    task, config = read_config(trial.run)
    return _other_task(trial, task) + differences(trial.config, config, _ignored(trial) - {"seed"})


def _other_task(trial: Trial, task: str) -> list[str]:
    return [] if task == trial.task else [f"the task is {task}, not {trial.task}"]


def _ignored(trial: Trial) -> set[str]:
    """Settings in which a run may differ from its trial."""
    return BOOKKEEPING | MACHINE | (set() if find_task(trial.task) else ENVIRONMENT_DECIDES)


def _differences_of_baseline(trial: Trial, record: dict[str, Any]) -> list[str]:
    """The same for a baseline: only what it has of FlashSAC's settings, and the hyperparameters that were changed."""
    settings = dict(record["config"])
    minutes = settings.pop("minutes", None)
    settings.pop("threads", None)
    try:
        found = coerce(from_dict(settings))
    except (FlashSACError, *MALFORMED):
        return ["it was made by another version of flashsac"]
    own = TrainConfig(seed=trial.seed, env=EnvConfig(num_envs=_algorithm(trial).num_envs))
    wanted = changed(own, trial._baseline_settings())
    ignored = _ignored(trial) - {"seed", "eval.every"} | ({"steps"} if minutes is not None else set())
    length = [] if minutes is None else [f"its length is {minutes:g} minutes, not {wanted.steps} steps"]
    by_set = [f"{name} is set to {value}" for name, value in record.get("changes", {}).items()]
    return length + by_set + differences(wanted, found, ignored)


def _algorithm(trial: Trial) -> Algorithm:
    from flashsac.experiments.baselines.algorithms import find_algorithm  # imports torch

    return find_algorithm(str(trial.algorithm))


def lacks_diagnostics(trial: Trial) -> bool:
    """True if the run was begun without the diagnostics that its trial asks for. It never gets them: the settings of a
    run are fixed."""
    wanted = trial.config.diagnostics
    if trial.algorithm is not None or not wanted.every or not (trial.run / layout.CONFIG).exists():
        return False
    return read_config(trial.run)[1].diagnostics != wanted


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
    return _with_one_precision(trial).command()


def _with_one_precision(trial: Trial) -> Trial:
    """Return a trial whose precision is not `auto`, but that of its sweep."""
    if trial.algorithm is not None or trial.config.precision != "auto":
        return trial
    from flashsac.experiments.precision import sweep_precision  # imports torch

    precision = sweep_precision(trial.run.parents[2], trial.config.device)
    return dataclasses.replace(trial, settings=trial.settings | {"precision": precision})


def last_lines(trial: Trial, count: int = 12) -> list[str]:
    """The end of what its process has printed."""
    try:
        text = Path(trial.log).read_bytes()[-20_000:].decode(errors="replace")
    except FileNotFoundError:
        return []
    return [line for line in text.splitlines() if line.strip()][-count:]
