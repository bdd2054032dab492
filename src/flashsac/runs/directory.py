"""The run directory: what it holds, who may write to it, and how it is found again."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import secrets
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import filelock

from flashsac.config.checks import check, coerce
from flashsac.config.schema import TrainConfig, from_dict, to_dict
from flashsac.errors import FlashSACError, OtherAlgorithm, RunDirectoryError
from flashsac.runs import layout
from flashsac.runs.manifest import adopt, saved_records
from flashsac.runs.metrics_file import read_metrics_file
from flashsac.runs.parent import Parent, parent_in
from flashsac.runs.provenance import machine, version, versions
from flashsac.runs.seal import MALFORMED, seal_readable, unseal_readable
from flashsac.system.files import UNFINISHED, free_name, make_folder, remove_tree, sync, write_atomic

LOCK = ".lock"
EVENTS = "events.out.tfevents."
DAMAGED = "config-damaged.json"
UNSEALED_KEYS = {"task", "config", "versions", "machine"}
"""What config.json held before it had a checksum. With any other key it had one, and lost it."""

BASELINE = ("algorithm", "library", "hyperparameters")
"""What config.json holds besides where another algorithm than FlashSAC trains."""


class Run:
    """A directory that belongs to one training run, locked while open. The lock ends with the process, however it
    ends."""

    def __init__(self, path: Path, task: str, config: TrainConfig, record: dict[str, Any] | None = None):
        self.path, self.task, self.config = path, task, config
        self.record: dict[str, Any] = {"id": secrets.token_hex(16)} if record is None else record
        """What config.json holds; before it is written, only the id of the run. Runs of the first versions have no
        id."""
        self.notes: list[str] = []
        """What to tell the user about the directory."""
        self._lock = filelock.FileLock(path / LOCK)
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout as error:
            raise RunDirectoryError(
                f"another process is training in {path}. Wait for it, or stop it, or give this run its own --run-dir."
            ) from error

    @classmethod
    def create(cls, task: str, config: TrainConfig) -> Run:
        """The directory of a new run, locked; refuses one that already holds a run. `write_config` makes it a run."""
        path = Path(config.run_dir) if config.run_dir else _make_default(task, config.seed)
        if (path / layout.CONFIG).exists():
            return cls._replace_untrained(path, task, config)
        # Also of hidden files: `discard` deletes the directory again if the run cannot begin.
        if path.exists() and (not path.is_dir() or any(not _left_over(item) for item in path.iterdir())):
            raise RunDirectoryError(f"{path} exists and is not an empty directory. Choose another --run-dir.")
        try:
            for folder in (*reversed(path.parents), path):
                make_folder(folder)
            run = cls(path, task, config)
        except OSError as error:
            raise RunDirectoryError(
                f"{path} cannot be written ({error.strerror}). Choose another --run-dir."
            ) from error
        return run

    @classmethod
    def _replace_untrained(cls, path: Path, task: str, config: TrainConfig) -> Run:
        """The directory of a run that ended before its first row and checkpoint, without what that run left; refuses
        any other."""
        run = cls(
            path, task, config
        )  # locked before it is looked at: another process may be about to write the first row
        if not _is_untrained(path):
            run.close()
            raise RunDirectoryError(
                f"{path} already holds a run. Continue it with: flashsac resume {path} (from Python: flashsac.resume), or choose "
                "another run directory."
            )
        for item in path.iterdir():
            if item.name not in (LOCK, layout.CONFIG):
                remove_tree(item) if item.is_dir() else item.unlink()
        (path / layout.CONFIG).unlink()  # last: until then the directory can be recognised again
        run.notes.append(f"note: {path} held a run that ended before it had trained anything; this run takes its place")
        return run

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """An existing run, to go on with it. A damaged config.json is replaced by the copy in a checkpoint."""
        record, (task, config), fault = _read(path, _settings)
        run = cls(Path(path), task, dataclasses.replace(config, run_dir=str(path)), record)
        if fault:
            try:
                run._rewrite_config(fault)
            except OSError as error:
                run.close()
                raise RunDirectoryError(f"{fault} It could not be replaced ({error.strerror}).") from error
        return run

    def _rewrite_config(self, fault: str) -> None:
        file = self.path / layout.CONFIG
        kept = ""
        if file.exists():
            aside = free_name(self.path / DAMAGED)
            file.rename(aside)
            kept = f" The damaged file is kept as {aside.name}."
        write_atomic(file, seal_readable(self.record))
        self.notes.append(f"warning: {fault} config.json was written again.{kept}")

    def write_config(self) -> None:
        """Write config.json; training/build.py calls this once everything is settled and built.

        Nobody else writes the file, and a run that has one keeps it."""
        file = self.path / layout.CONFIG
        if file.exists():
            return
        content = {"task": self.task, "config": to_dict(self.config), "versions": versions(), "machine": machine()}
        self.record = content | self.record
        try:
            write_atomic(file, seal_readable(self.record))
        except OSError as error:
            raise RunDirectoryError(
                f"{self.path} cannot be written ({error.strerror}). Choose another --run-dir."
            ) from error

    def copy_contents(self, source: Path) -> None:
        """Checkpoints, replay and metrics of another run, which stays as it is; the settings are this run's own."""
        ignored = shutil.ignore_patterns(".*", layout.CONFIG, DAMAGED, layout.WALL_CLOCK, "wandb*", "trackio_id")
        shutil.copytree(source, self.path, dirs_exist_ok=True, ignore=ignored)
        adopt(self.path, self.record)

    @property
    def parent(self) -> Parent | None:
        """The checkpoint of another run that this one started from."""
        return parent_in(self.record)

    def close(self) -> None:
        self._lock.release()

    def discard(self) -> None:
        """The run never began: leave no trace that would block the next try."""
        remove_tree(self.path)
        if self.config.run_dir is None:  # runs/TASK was made by us too, and is in nobody's way only if others are in it
            with contextlib.suppress(OSError):
                self.path.parent.rmdir()


def read_config(path: str | Path) -> tuple[str, TrainConfig]:
    """Task and settings of a run, without touching it."""
    return _read_and_say(path, _settings)


def read_ancestry(path: str | Path) -> tuple[str, TrainConfig, Parent | None]:
    """Task, settings and parent of a run, without touching it."""
    return _read_and_say(path, lambda record: (*_settings(record), parent_in(record)))


def read_task_and_seed(path: str | Path) -> tuple[str, int]:
    """What curves are grouped by; also of runs that another version has made."""
    return _read_and_say(path, _task_and_seed)


def read_recorded_settings(path: str | Path) -> dict[str, Any]:
    """Return the settings as they were written, also of runs that another version has made."""
    return _read(path, settings_of)[1]


def settings_of(record: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in what config.json holds. Those of a baseline have the keys of BASELINE too."""
    return record["config"] | {name: record[name] for name in BASELINE if name in record}


def read_record(path: str | Path) -> dict[str, Any]:
    """Return what config.json holds, also of runs that another version has made. Task and seed have the right types."""
    return _read_and_say(path, lambda record: (_task_and_seed(record), record)[1])


def is_baseline(record: dict[str, Any]) -> bool:
    """True if this is the config.json of another algorithm than FlashSAC."""
    return BASELINE[0] in record


def refuse_baseline(record: dict[str, Any]) -> None:
    """Raise where only a run of FlashSAC will do."""
    if is_baseline(record):
        raise OtherAlgorithm(
            f"this is a run of the baseline {record[BASELINE[0]]!s:.40}, which has no FlashSAC policy. Its evaluations are "
            "in metrics.csv, where `flashsac report` reads them, and videos/final.mp4 shows it. `flashsac resume` goes on with it."
        )


def _settings(record: dict[str, Any]) -> tuple[str, TrainConfig]:
    """The task and the settings, after the same checks as when a run begins."""
    refuse_baseline(record)
    config = coerce(from_dict(record["config"]))
    check(config)
    parent_in(record)
    return _task(record), config


def _task_and_seed(record: dict[str, Any]) -> tuple[str, int]:
    seed = record["config"]["seed"]
    if not isinstance(seed, int):
        raise TypeError(f"the seed is {seed!r:.60}")
    return _task(record), seed


def _task(record: dict[str, Any]) -> str:
    if not isinstance(record["task"], str):
        raise TypeError(f"the task is {record['task']!r:.60}")
    return record["task"]


Picked = TypeVar("Picked")


def _read_and_say(path: str | Path, pick: Callable[[dict[str, Any]], Picked]) -> Picked:
    _, picked, fault = _read(path, pick)
    if fault:
        print(f"warning: {fault}", file=sys.stderr)
    return picked


def _read(path: str | Path, pick: Callable[[dict[str, Any]], Picked]) -> tuple[dict[str, Any], Picked, str | None]:
    """The content of config.json, or of its copy in the newest checkpoint; what `pick` makes of it; what is wrong with
    the file."""
    file = Path(path) / layout.CONFIG
    copies = saved_records(Path(path))
    try:
        record = _read_record(file)
        return record, pick(record), None
    except FileNotFoundError:
        if (first := next(copies, None)) is None:
            raise RunDirectoryError(
                f"{path} is no run directory: it has no config.json. `flashsac train TASK` makes one."
            ) from None
        copies, fault = itertools.chain([first], copies), "it is missing"
    except OtherAlgorithm as error:
        raise OtherAlgorithm(f"{path}: {error}") from None
    except (OSError, FlashSACError, *MALFORMED) as error:
        fault = f"{error}"[:200]
    found = list(copies)
    if len({record.get("id") for _, record in found}) == 1:
        folder, record = found[0]
        with contextlib.suppress(FlashSACError, *MALFORMED):
            return (
                record,
                pick(record),
                (
                    f"{file} is damaged or was edited by hand ({fault.rstrip('.')}). The settings of a run are fixed, so the copy in "
                    f"{folder.name} is used; for other settings begin a new run."
                ),
            )
    copies_are = (
        "the copies of it in the checkpoints are of no use either" if found else "no checkpoint has a copy of it"
    )
    raise RunDirectoryError(
        f"{file} cannot be read by flashsac {version('flashsac')} ({fault.rstrip('.')}). It is damaged, was edited by hand, or is "
        f"from another version, and {copies_are}. Undo the edit, or begin a new run."
    )


def _read_record(file: Path) -> dict[str, Any]:
    """Raise ValueError unless the file is as it was written, as far as that can be known."""
    record, sealed = unseal_readable(file.read_text())
    if not sealed and (unknown := record.keys() - UNSEALED_KEYS):
        raise ValueError(f"it has no checksum, but holds {', '.join(sorted(unknown))!r:.60}")
    return record


def _is_untrained(run: Path) -> bool:
    """True if a run wrote neither a row of metrics nor a checkpoint, and nobody has put anything else into its
    directory."""
    rows, damaged = read_metrics_file(run / layout.METRICS)
    others = run / layout.RANKS  # what other ranks have saved counts only if the first one has
    files = [item for item in run.rglob("*") if (item.is_symlink() or not item.is_dir()) and others not in item.parents]
    return not rows and not damaged and all(_without_content(file, run) for file in files)


def _without_content(file: Path, run: Path) -> bool:
    """True for a file that a run has before its first row."""
    if file.is_symlink():
        return False
    if file.parent.name == layout.TENSORBOARD:
        return file.name.startswith(EVENTS)
    top = run / file.relative_to(run).parts[0]
    return _left_over(top) or (file.parent == run and file.name in (layout.CONFIG, layout.METRICS, layout.RESERVE))


def _left_over(path: Path) -> bool:
    """True for files that a run which never began may have left behind."""
    return path.name in (LOCK, layout.RING) or path.name.startswith(UNFINISHED)


def _make_default(task: str, seed: int) -> Path:
    """A new directory; jobs that begin in the same second get one each."""
    first = Path("runs") / task.replace(":", "-").replace("/", "-") / f"{time.strftime('%Y%m%d-%H%M%S')}-seed{seed}"
    for path in itertools.chain([first], (first.with_name(f"{first.name}-{number}") for number in itertools.count(2))):
        try:
            for folder in reversed(path.parents):
                make_folder(folder)
            path.mkdir()
            sync(path.parent)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunDirectoryError(f"{path} cannot be made ({error.strerror}). Choose another --run-dir.") from error
        break
    return path
