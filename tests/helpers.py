"""What several tests need."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

import flashsac
from flashsac.core.update import StepSizes, UpdateNoise
from flashsac.runs.layout import checkpoint_folders, step_of
from flashsac.runs.seal import seal_readable
from flashsac.training.hooks import Hooks
from flashsac.training.trainer import Trainer
from tests import toy_envs

ROOT = Path(__file__).parents[1]
PATIENCE = 3600.0
"""Seconds until a test gives up on another process: only one that hangs takes so long, however busy the machine is."""

TINY: dict[str, Any] = dict(
    preset="laptop",
    steps=600,
    video=False,
    compile="off",
    precision="fp32",
    log_every=50,
    agent=dict(
        batch_size=16,
        warmup=100,
        critic_width=8,
        actor_width=8,
        updates_per_transition=0.25,
    ),
    env=dict(num_envs=2),
    eval=dict(every=200, episodes=2),
)
"""A run of a second or two."""


def noise_and_step_sizes(
    noise: Tensor, actor: Tensor, critic: Tensor | None = None, *, transform: Tensor | None = None
) -> tuple[UpdateNoise, StepSizes]:
    """The arguments of an update: noise, (2, batch, action_dim), and step sizes; one for both networks by default."""
    drawn = torch.zeros(0) if transform is None else transform
    return UpdateNoise(drawn, *noise), StepSizes(actor, actor if critic is None else critic)


def tiny_run(path: Path, task: Any = toy_envs.make_point, **changes: Any) -> Path:
    flashsac.train(task, run_dir=str(path), quiet=True, **TINY | changes)
    return path


@contextlib.contextmanager
def full_disk(room: int = 0) -> Iterator[Callable[[], None]]:
    """No file of this process may grow beyond `room` bytes, as if the disk were full. Gives a function that frees it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    free = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error, not the end of the process
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield free
    finally:
        free()
        signal.signal(signal.SIGXFSZ, handler)


class StopAt(Hooks):
    """Ends a run in order once it has reached each of these steps, as the first Ctrl-C does."""

    def __init__(self, *steps: int):
        self._steps = list(steps)

    def before_step(self, trainer: Trainer) -> None:
        if self._steps and trainer.step >= self._steps[0]:
            self._steps.pop(0)
            trainer.stop()


def from_file(path: str) -> ModuleType:
    """A script of this repository, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def checkpoint_steps(run: Path) -> list[int]:
    return [step_of(folder) for folder in checkpoint_folders(run / "checkpoints")]


def edit_config(run: Path, old: str, new: str) -> None:
    """Change the text of config.json and its checksum, as if the run had been made with other settings."""
    file = run / "config.json"
    content = json.loads(file.read_text().replace(old, new))
    del content["sha256"]
    file.write_text(seal_readable(content))


def lose_newest_checkpoint(run: Path) -> None:
    """As if the run had been killed before it."""
    shutil.rmtree(checkpoint_folders(run / "checkpoints")[0])


def wait_until(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def cli(*arguments: str, cwd: Path | None = None, check: bool = True, **env: str) -> subprocess.CompletedProcess:
    """The command line as a user runs it, in a process of its own."""
    done = subprocess.run(
        command(*arguments), cwd=cwd, env=environment(**env), capture_output=True, text=True, timeout=PATIENCE
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def blocks(language: str, document: str = "README.md") -> list[str]:
    """The code in a document."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def named_blocks(document: str) -> dict[str, str]:
    """The files in a document: blocks of code whose first line is a comment with the file's name."""
    return dict(re.findall(r"```\w+\n# ([\w./-]+\.\w+)\n(.*?)```", (ROOT / document).read_text(), re.DOTALL))


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "flashsac", *arguments]


def environment(**extra: str) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"} | extra
