"""The checkpoint of a baseline's run: one folder, written as a whole, checksummed, and never any code on load.

The libraries' own files are pickles, which run code when they are loaded. This has only tensors and JSON, in the form
of FlashSAC's checkpoints.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from flashsac.errors import CheckpointError
from flashsac.runs import layout
from flashsac.runs.disk import remove_unfinished
from flashsac.runs.manifest import FORMAT, MANIFEST, STATE, check_owner, read_manifest
from flashsac.runs.seal import MALFORMED, digest_of, fault_of, seal
from flashsac.runs.tree import flatten, save_tensors, unflatten
from flashsac.system.files import UNFINISHED, make_folder, remove_tree, sync


def save(run_dir: Path, task: str, record: dict[str, Any], step: int, state: dict[str, Any]) -> None:
    """Write the checkpoint of this step; delete older ones once it is whole. `record` is what config.json holds."""
    folder = run_dir / layout.CHECKPOINTS
    final = folder / layout.step_folder(step)
    remove_unfinished(run_dir)
    make_folder(folder)
    temporary = folder / f"{UNFINISHED}{final.name}"
    try:
        temporary.mkdir()
        tensors: dict[str, torch.Tensor] = {}
        manifest = {"format": FORMAT, "step": step, "task": task, "tree": flatten(state, tensors), "run": record}
        save_tensors(tensors, temporary / STATE)
        manifest |= {"files": {STATE: digest_of(temporary / STATE)}, "pieces": []}
        (temporary / MANIFEST).write_text(seal(manifest))
        sync(temporary / MANIFEST)
        sync(temporary)
        if final.exists():  # this step was saved before; at every moment one of the two is there
            final.rename(folder / f"{final.name}-old")
        temporary.rename(final)
        sync(folder)
    except OSError:
        remove_tree(temporary)
        raise
    for path in layout.checkpoint_folders(folder)[1:]:
        remove_tree(path)


def with_number_keys(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a torch optimizer as it was: it counts parameters by number, but the keys of JSON are texts."""
    return state | {"state": {int(key): value for key, value in state["state"].items()}}


def reached(run_dir: Path, task: str, steps: int) -> bool:
    """True if the newest checkpoint is that far and has no evaluation left to do. Only its manifest is read: networks
    and replay may be large."""
    newest = next(iter(layout.checkpoint_folders(run_dir / layout.CHECKPOINTS)), None)
    if newest is None:
        return False
    try:
        manifest = read_manifest(newest)
        check_owner(newest, manifest, task, None)
        due = manifest["tree"]["dict"]["evaluation_due"]["value"]
    except (CheckpointError, *MALFORMED):
        return False
    return manifest["step"] >= steps and not due and (newest / STATE).is_file()


def load(run_dir: Path, task: str, record: dict[str, Any]) -> tuple[int, dict[str, Any]] | None:
    """Step and state of the newest checkpoint; None if there is none yet."""
    newest = next(iter(layout.checkpoint_folders(run_dir / layout.CHECKPOINTS)), None)
    if newest is None:
        return None
    try:
        manifest = read_manifest(newest)
        check_owner(newest, manifest, task, record)
        if fault := fault_of(newest / STATE, manifest["files"][STATE]):
            raise CheckpointError(f"{newest.name} is corrupt: {fault}")
        return manifest["step"], unflatten(manifest["tree"], load_file(newest / STATE))
    except CheckpointError as error:
        raise CheckpointError(f"{error}. Begin the baseline again, with another --run-dir.") from error
    except (SafetensorError, OSError, *MALFORMED) as error:
        raise CheckpointError(
            f"{newest.name} is corrupt: its state cannot be understood ({type(error).__name__}: {error!s:.200}). "
            "Begin the baseline again, with another --run-dir."
        ) from error
