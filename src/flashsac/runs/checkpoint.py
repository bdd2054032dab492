"""Checkpoints that lose nothing: atomic, checksummed, incremental for the replay, and never any code on load.

A checkpoint is a folder `step-000000012000` with `state.safetensors` (all tensors), `policy.safetensors` (the actor alone), and
`manifest.json` (the tree the tensors belong to, and the SHA-256 of every file it needs). It is written under a temporary name and
renamed, so it is there whole or not at all. The replay's contents lie beside it as pieces, each written once: a checkpoint costs
what is new.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from flashsac.core.replay import Replay
from flashsac.errors import CheckpointError
from flashsac.types import EnvSpec

FORMAT = 1
PIECE_BYTES = 256 * 2**20
"""Replay pieces are cut to about this size, so that saving needs little extra memory."""


@dataclasses.dataclass
class Checkpoint:
    """One that was loaded and verified."""

    step: int
    state: dict[str, Any]
    pieces: list[dict[str, Any]]
    lost_until: int = 0
    """Replay steps before this one are lost, because a piece of them is damaged; 0 if all is well."""


# --- plain values, arrays and tensors as JSON plus tensors -------------------------------------------------------------


def flatten(tree: Any, tensors: dict[str, torch.Tensor], path: str = "") -> Any:
    """The tree with every tensor and array replaced by a reference, and the tensors put into `tensors`."""
    if isinstance(tree, dict):
        return {"dict": {str(key): flatten(value, tensors, f"{path}/{key}") for key, value in tree.items()}}
    if isinstance(tree, list | tuple):
        return {"list": [flatten(value, tensors, f"{path}/{i}") for i, value in enumerate(tree)]}
    if isinstance(tree, torch.Tensor | np.ndarray):
        tensor = tree.detach() if isinstance(tree, torch.Tensor) else torch.from_numpy(np.array(tree, order="C"))
        tensors[path] = tensor.cpu().clone().contiguous()
        return {"array" if isinstance(tree, np.ndarray) else "tensor": path}
    if isinstance(tree, np.generic):
        return {"value": tree.item()}
    if tree is None or isinstance(tree, bool | int | float | str):
        return {"value": tree}
    raise TypeError(f"cannot save a {type(tree).__name__} at {path}")


def unflatten(node: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Any:
    """The inverse of `flatten`."""
    kind, value = next(iter(node.items()))
    if kind == "dict":
        return {key: unflatten(child, tensors) for key, child in value.items()}
    if kind == "list":
        return [unflatten(child, tensors) for child in value]
    if kind == "value":
        return value
    return tensors[value] if kind == "tensor" else tensors[value].numpy()


# --- files -------------------------------------------------------------------------------------------------------------


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def save_tensors(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """safetensors to disk for certain; a full disk is an OSError here, whatever the library calls it."""
    try:
        save_file(tensors, path, metadata)
        _sync(path)
    except SafetensorError as error:
        raise OSError(errno.ENOSPC if "os error 28" in str(error) else errno.EIO, str(error), str(path)) from error


def free_name(path: Path) -> Path:
    """The path itself, or with -2, -3, ... behind it if something lies there."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(found for found in itertools.chain([path], numbered) if not found.exists())


def step_of(path: Path) -> int:
    """Of a checkpoint's folder, or of a policy that was saved alone."""
    return int(path.stem.split("-")[1])


class ForeignCheckpointError(CheckpointError):
    """Whole, but not ours to load: falling back to an older one would be wrong."""


class CheckpointStore:
    """The checkpoints of one run."""

    def __init__(self, run_dir: Path, task: str, keep: int = 2):
        self.folder = run_dir / "checkpoints"
        self.pieces_folder = run_dir / "replay"
        self.task, self.keep = task, max(1, keep)
        self._pieces: list[dict[str, Any]] = []
        self._saved_until = 0

    # saving

    def save(self, step: int, state: dict[str, Any], replay: Replay, write_policy: Callable[[Path], None]) -> Path:
        """Save everything; on failure nothing is lost that was saved before, at least the policy is written if it can be, and the
        error says what to do."""
        final = self.folder / f"step-{step:012d}"
        temporary = self.folder / f".writing-{final.name}"
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            self.pieces_folder.mkdir(exist_ok=True)
            self._save_new_pieces(replay)
            tensors: dict[str, torch.Tensor] = {}
            manifest = {"format": FORMAT, "step": step, "task": self.task, "tree": flatten(state, tensors)}
            save_tensors(tensors, temporary / "state.safetensors")
            write_policy(temporary / "policy.safetensors")
            manifest["files"] = {path.name: _digest(path) for path in sorted(temporary.iterdir())}
            manifest["pieces"] = self._pieces
            (temporary / "manifest.json").write_text(_sealed(manifest))
            _sync(temporary / "manifest.json")
            old = self.folder / f"{final.name}-old"
            if final.exists():  # this step was saved before; at every moment one of the two is there
                shutil.rmtree(old, ignore_errors=True)
                final.rename(old)
            temporary.rename(final)
            _sync(self.folder)
            shutil.rmtree(old, ignore_errors=True)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            free = shutil.disk_usage(self.folder.parent).free / 2**20
            alone = self._save_policy_alone(step, write_policy)
            raise CheckpointError(
                f"the checkpoint at step {step} could not be written to {self.folder} ({error.strerror or error}; {free:.0f} MB are "
                f"free). The earlier checkpoints are untouched{f', and the policy alone was written to {alone}' if alone else ''}. "
                f"Free some space; a run that has stopped goes on with: flashsac resume {self.folder.parent}"
            ) from error
        self._delete_policies_alone(until=step)
        self._delete_old()
        return final

    def _save_policy_alone(self, step: int, write_policy: Callable[[Path], None]) -> Path | None:
        """A replay may be gigabytes too large for a disk that has room for what was learned from it."""
        temporary, final = self.folder / "policy.writing", self.folder / f"policy-{step:012d}.safetensors"
        try:
            write_policy(temporary)
            temporary.rename(final)
        except OSError:
            temporary.unlink(missing_ok=True)
            return None
        self._delete_policies_alone(until=step - 1)
        return final

    def _delete_policies_alone(self, until: int) -> None:
        """Of these steps there is something better now."""
        for path in self.folder.glob("policy-*.safetensors"):
            if step_of(path) <= until:
                path.unlink(missing_ok=True)

    def _save_new_pieces(self, replay: Replay) -> None:
        if any(not (self.pieces_folder / piece["file"]).exists() for piece in self._pieces):
            self._pieces, self._saved_until = [], replay.oldest  # somebody deleted one: write them all again
        first = max(self._saved_until, replay.oldest)
        row_bytes = sum(ring[0].nbytes for ring in (*replay.obs.values(), replay.action, replay.reward)) + 1
        rows = max(1, PIECE_BYTES // row_bytes)
        while first < replay.head:
            stop = min(first + rows, replay.head)
            # Named by when it was written too: a resumed run may write other data for the same steps.
            name = f"{first:012d}-{stop:012d}-{time.time_ns()}.safetensors"
            try:
                save_tensors(replay.export_steps(first, stop), self.pieces_folder / name)
            except OSError:
                (self.pieces_folder / name).unlink(missing_ok=True)
                raise
            self._pieces.append(
                {"file": name, "first": first, "stop": stop, "sha256": _digest(self.pieces_folder / name)}
            )
            first = self._saved_until = stop
        self._pieces = [piece for piece in self._pieces if piece["stop"] > replay.oldest]

    def save_again_from(self, step: int) -> None:
        """Steps from here on have changed since they were saved."""
        self._saved_until = min(self._saved_until, step)

    def _delete_old(self) -> None:
        paths = self._paths()
        for path in paths[self.keep :]:
            shutil.rmtree(path, ignore_errors=True)
        needed = set()
        for path in paths[: self.keep]:
            try:
                needed |= {piece["file"] for piece in _unsealed((path / "manifest.json").read_text())["pieces"]}
            except (OSError, ValueError, KeyError):
                return  # a damaged manifest: delete nothing that it might need
        for path in self.pieces_folder.glob("*.safetensors"):
            if path.name not in needed:
                path.unlink(missing_ok=True)

    # loading

    def _paths(self) -> list[Path]:
        """Newest first."""
        return sorted(self.folder.glob("step-*"), reverse=True) if self.folder.exists() else []

    @property
    def newest(self) -> Path | None:
        """None if no checkpoint was ever finished."""
        return next(iter(self._paths()), None)

    def reached(self, steps: int) -> int | None:
        """The step of the newest checkpoint, if it is that far, whole, and has nothing left to do: not even an evaluation."""
        if self.newest is None or step_of(self.newest) < steps:
            return None
        try:
            checkpoint = self._read(self.newest, forgiving=False)
        except CheckpointError:
            return None
        return None if checkpoint.state.get("evaluation_due") else checkpoint.step

    def load(self) -> tuple[Checkpoint, list[str]]:
        """The newest that is whole, and what was wrong with newer ones, which are put aside."""
        problems: list[str] = []
        for forgiving in (False, True):  # only if none is whole, one that lost part of its replay will do
            damaged = []
            for path in self._paths():
                try:
                    checkpoint = self._read(path, forgiving)
                except ForeignCheckpointError:
                    raise
                except CheckpointError as error:
                    problems += [] if forgiving else [str(error)]
                    damaged.append(path)
                    continue
                for other in damaged:
                    other.rename(free_name(other.with_name(f"damaged-{other.name}")))
                return checkpoint, problems
        detail = "; ".join(problems) if problems else "it holds none"
        raise CheckpointError(f"no usable checkpoint in {self.folder}: {detail}. Train anew with another --run-dir.")

    def _read(self, path: Path, forgiving: bool) -> Checkpoint:
        try:
            manifest = _unsealed((path / "manifest.json").read_text())
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path.name} is corrupt: its manifest cannot be read ({error})") from error
        if manifest.get("format") != FORMAT:
            raise ForeignCheckpointError(
                f"{path.name} has format {manifest.get('format')}, this flashsac reads {FORMAT}. Use the version that wrote it."
            )
        if manifest["task"] != self.task:
            raise ForeignCheckpointError(
                f"{path.name} was made for {manifest['task']}, not {self.task}. Resume it in its own run directory."
            )
        for name, digest in manifest["files"].items():
            if fault := _fault(path / name, digest):
                raise CheckpointError(f"{path.name} is corrupt: {fault}")
        lost_until = 0
        for piece in manifest["pieces"]:
            if fault := _fault(self.pieces_folder / piece["file"], piece["sha256"]):
                if not forgiving:
                    raise CheckpointError(f"{path.name} is incomplete: {fault}, a piece of the replay")
                lost_until = max(lost_until, piece["stop"])
        pieces = [piece for piece in manifest["pieces"] if piece["stop"] > lost_until]
        state = unflatten(manifest["tree"], load_file(path / "state.safetensors"))
        return Checkpoint(manifest["step"], state, pieces, lost_until)

    def restore_replay(self, checkpoint: Checkpoint, replay: Replay) -> None:
        """Fill the ring from its pieces, oldest first, and go on adding to them."""
        for piece in checkpoint.pieces:
            replay.import_steps(piece["first"], load_file(self.pieces_folder / piece["file"]))
        self._pieces = list(checkpoint.pieces)
        self._saved_until = max((piece["stop"] for piece in checkpoint.pieces), default=0)


def fingerprint(spec: EnvSpec) -> dict[str, Any]:
    """What must be the same for a checkpoint to make sense."""
    more: dict[str, Any] = {"pixels": list(spec.pixels.shape)} if spec.pixels else {}
    more |= {"history": spec.history} if spec.history else {}
    return {"obs": spec.obs, "action_dim": spec.action_dim, "num_envs": spec.num_envs} | more


def check_same(saved: dict[str, Any], spec: EnvSpec) -> None:
    """Raises unless a checkpoint with this fingerprint was made in such environments."""
    if saved != fingerprint(spec):
        raise CheckpointError(
            f"the checkpoint was made with {saved}, but the environment now has {fingerprint(spec)}. Resume with the same "
            "environment, or train anew with another --run-dir."
        )


def _fault(path: Path, digest: str) -> str | None:
    """What is wrong with a file, or None."""
    if not path.exists():
        return f"{path.name} is missing"
    try:
        return None if _digest(path) == digest else f"the checksum of {path.name} is wrong (truncated or changed)"
    except OSError as error:
        return f"{path.name} cannot be read ({error.strerror})"


def _sealed(manifest: dict[str, Any]) -> str:
    """JSON whose second line is the checksum of the first."""
    body = json.dumps(manifest)
    return f"{body}\n{hashlib.sha256(body.encode()).hexdigest()}\n"


def _unsealed(text: str) -> dict[str, Any]:
    body, _, digest = text.partition("\n")
    if hashlib.sha256(body.encode()).hexdigest() != digest.strip():
        raise ValueError("its checksum is wrong")
    return json.loads(body)
