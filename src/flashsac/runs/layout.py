"""Names in a run directory: which file lies where, and which step a name stands for."""

from __future__ import annotations

import re
from pathlib import Path

CONFIG = "config.json"
METRICS = "metrics.csv"
WALL_CLOCK = "wall_clock.json"
"""The run's time by the paper's protocol, which `flashsac bench --run` measures."""
CHECKPOINTS = "checkpoints"
REPLAY = "replay"
RANKS = "ranks"
"""The folder of the processes that train one run: ranks/1, ranks/2, ... are the run directories of all but the
first."""
RING = "replay-ring"
"""The replay itself, where it is kept on disk; it is gone when the run ends."""
RESERVE = ".reserve"
"""A file without content that keeps room on the disk for the last policy."""
VIDEOS = "videos"
TENSORBOARD = "tensorboard"
POLICY = "policy.safetensors"
"""The policy in a checkpoint's folder."""
BEST = "best.safetensors"
"""The policy that evaluated best, beside the checkpoints."""
_STEP = re.compile(r"step-(\d{12,16})(-old)?")
"""A checkpoint's folder; -old while the same step is saved again. Every other name is somebody else's."""
_ALONE = re.compile(r"policy-(\d{12,16})\.safetensors")


def step_folder(step: int) -> str:
    """The name of a checkpoint's folder."""
    return f"step-{step:012d}"


def policy_alone(step: int) -> str:
    """The name of a policy that was saved where a whole checkpoint had no room."""
    return f"policy-{step:012d}.safetensors"


def step_of(path: Path) -> int:
    """The step that a checkpoint's folder, or a policy that was saved alone, has in its name."""
    return int(path.stem.split("-")[1])


def checkpoint_folders(checkpoints: Path) -> list[Path]:
    """The folders of all finished checkpoints, newest first. Copies by another name and files are not among them."""
    found = (path for path in checkpoints.glob("step-*") if is_checkpoint(path) and path.is_dir())
    return sorted(found, key=lambda path: (step_of(path), not path.name.endswith("-old")), reverse=True)


def policies_alone(checkpoints: Path) -> list[Path]:
    """The policies that were saved without a checkpoint."""
    return [path for path in checkpoints.glob("policy-*.safetensors") if _ALONE.fullmatch(path.name)]


def is_checkpoint(path: Path) -> bool:
    """True for the name of a checkpoint's folder."""
    return _STEP.fullmatch(path.name) is not None


def run_of(path: Path) -> Path | None:
    """The run directory that a directory is, or lies in as its checkpoints or one of them; None for anything else."""
    if not path.is_dir():
        return None
    if is_checkpoint(path) and path.parent.name == CHECKPOINTS:
        path = path.parent
    run = path.parent if path.name == CHECKPOINTS else path
    return run if (run / CONFIG).exists() else None
