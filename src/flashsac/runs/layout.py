"""Names in a run directory: which file lies where, and which step a name stands for."""

from __future__ import annotations

from pathlib import Path

CONFIG = "config.json"
METRICS = "metrics.csv"
CHECKPOINTS = "checkpoints"
REPLAY = "replay"
RING = "replay-ring"
"""The replay itself, where it is kept on disk; it is gone when the run ends."""
VIDEOS = "videos"
POLICY = "policy.safetensors"
"""The policy in a checkpoint's folder."""
BEST = "best.safetensors"
"""The policy that evaluated best, beside the checkpoints."""


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
    """The folders of all finished checkpoints, newest first."""
    return sorted(checkpoints.glob("step-*"), reverse=True)


def policies_alone(checkpoints: Path) -> list[Path]:
    """The policies that were saved without a checkpoint."""
    return list(checkpoints.glob("policy-*.safetensors"))


def is_checkpoint(path: Path) -> bool:
    return path.name.startswith("step-")


def run_of(path: Path) -> Path | None:
    """The run directory that a directory is, or lies in as its checkpoints or one of them; None for anything else."""
    if not path.is_dir():
        return None
    if is_checkpoint(path) and path.parent.name == CHECKPOINTS:
        path = path.parent
    run = path.parent if path.name == CHECKPOINTS else path
    return run if (run / CONFIG).exists() else None
