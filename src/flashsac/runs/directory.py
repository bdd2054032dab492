"""The run directory: what it holds, who may write to it, and how it is found again."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock

from flashsac.config.schema import TrainConfig, from_dict, to_dict
from flashsac.errors import RunDirectoryError
from flashsac.runs import layout
from flashsac.runs.provenance import machine, version, versions
from flashsac.system.files import UNFINISHED, make_folder, sync, write_atomic

LOCK = ".lock"


class Run:
    """A directory that belongs to one training run, locked while open. The lock ends with the process, however it ends."""

    def __init__(self, path: Path, task: str, config: TrainConfig):
        self.path, self.task, self.config = path, task, config
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
            raise RunDirectoryError(
                f"{path} already holds a run. Continue it with: flashsac resume {path} (from Python: flashsac.resume), or choose "
                "another run directory."
            )
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
    def open(cls, path: str | Path) -> Run:
        """An existing run, to go on with it."""
        task, config = read_config(path)
        return cls(Path(path), task, dataclasses.replace(config, run_dir=str(path)))

    def write_config(self) -> None:
        """Write config.json; training/build.py calls this once everything is settled and built.

        Nobody else writes the file, and a run that has one keeps it."""
        file = self.path / layout.CONFIG
        if file.exists():
            return
        content = {"task": self.task, "config": to_dict(self.config), "versions": versions(), "machine": machine()}
        try:
            write_atomic(file, json.dumps(content, indent=2) + "\n")
        except OSError as error:
            raise RunDirectoryError(
                f"{self.path} cannot be written ({error.strerror}). Choose another --run-dir."
            ) from error

    def copy_contents(self, source: Path) -> None:
        """Checkpoints, replay and metrics of another run, which stays as it is; the settings are this run's own."""
        shutil.copytree(source, self.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", layout.CONFIG))

    def close(self) -> None:
        self._lock.release()

    def discard(self) -> None:
        """The run never began: leave no trace that would block the next try."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.config.run_dir is None:  # runs/TASK was made by us too, and is in nobody's way only if others are in it
            with contextlib.suppress(OSError):
                self.path.parent.rmdir()


def read_config(path: str | Path) -> tuple[str, TrainConfig]:
    """Task and settings of a run, without touching it."""
    return _read(path, lambda content: (content["task"], from_dict(content["config"])))


def read_task_and_seed(path: str | Path) -> tuple[str, int]:
    """What curves are grouped by; also of runs that another version has made."""
    return _read(path, lambda content: (content["task"], content["config"]["seed"]))


def _read(path: str | Path, pick: Callable[[dict], tuple[str, Any]]) -> tuple[str, Any]:
    file = Path(path) / layout.CONFIG
    if not file.exists():
        raise RunDirectoryError(f"{path} is no run directory: it has no config.json. `flashsac train TASK` makes one.")
    try:
        return pick(json.loads(file.read_text()))
    except (ValueError, KeyError, TypeError) as error:
        raise RunDirectoryError(
            f"{file} cannot be read by flashsac {version('flashsac')} ({error}). It is damaged or from another version."
        ) from error


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
