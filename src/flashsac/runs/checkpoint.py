"""Checkpoints that lose nothing: atomic, checksummed, incremental for the replay, and never any code on load.

A checkpoint is a folder such as `step-000000012000`. `state.safetensors` holds all tensors, `policy.safetensors` the
actor alone. `manifest.json` holds the tree the tensors belong to, and the SHA-256 of every file the checkpoint needs.
The folder is written under a temporary name and renamed, so it is there whole or not at all. The replay's contents lie
beside it as pieces, each written once: a checkpoint costs what is new.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from flashsac.core.replay import Replay
from flashsac.errors import CheckpointError
from flashsac.runs import layout
from flashsac.runs.disk import Reserve, advice, fault_text, remove_unfinished, rescue_policy, tensor_bytes
from flashsac.runs.manifest import (
    FORMAT,
    MANIFEST,
    STATE,
    ForeignCheckpointError,
    OtherRunError,
    check_owner,
    check_state,
    read_manifest,
)
from flashsac.runs.seal import MALFORMED, digest_of, fault_of, seal
from flashsac.runs.tree import flatten, save_tensors, unflatten
from flashsac.system.files import UNFINISHED, free_name, make_folder, remove_tree, replacing, sync
from flashsac.types import EnvSpec

PIECE_BYTES = 256 * 2**20
"""Replay pieces are cut to about this size, so that saving needs little extra memory."""


@dataclasses.dataclass
class Checkpoint:
    """One that was loaded and verified."""

    step: int
    state: dict[str, Any]
    pieces: list[dict[str, Any]]
    """The pieces of the replay that are whole, in the order they were written."""
    filled: bool = False
    """True if the replay holds them already."""

    def lost_steps(self, first: int, stop: int) -> list[tuple[int, int]]:
        """The ranges of the replay's steps [first, stop) that no piece holds."""
        lost = []
        for piece in sorted(self.pieces, key=lambda piece: piece["first"]):
            if first < min(piece["first"], stop):
                lost.append((first, min(piece["first"], stop)))
            first = max(first, piece["stop"])
        return [*lost, (first, stop)] if first < stop else lost


class NotSaved(CheckpointError):
    """A checkpoint could not be written, because the disk is full or fails. It can be tried again."""


class CheckpointStore:
    """The checkpoints of one run."""

    reserve: Reserve | None = None
    """Room for the policy, used by the last save if there is too little for a checkpoint."""

    def __init__(self, run_dir: Path, task: str, keep: int = 2, record: dict[str, Any] | None = None):
        """`record` is what config.json holds. Every checkpoint has a copy, and those of another run are not loaded."""
        self.folder = run_dir / layout.CHECKPOINTS
        self.pieces_folder = run_dir / layout.REPLAY
        self.task, self.keep, self.record = task, max(1, keep), record
        self._pieces: list[dict[str, Any]] = []
        self._saved_until = 0
        self._rescued: dict[int, Path] = {}
        """Policies that had to be saved outside the run directory, by their step."""

    # saving

    def save(
        self,
        step: int,
        state: dict[str, Any],
        replay: Replay,
        write_policy: Callable[[Path], None],
        *,
        last: bool = False,
    ) -> Path:
        """Save everything. On failure nothing is lost that was saved before. At least the policy is then written if it
        can be, and the error says what to do. `last`: the run ends after this one, so the room that is kept for the
        policy may be used."""
        final = self.folder / layout.step_folder(step)
        temporary = self.folder / f"{UNFINISHED}{final.name}"
        try:
            self.delete_unused()
            make_folder(self.folder)
            make_folder(self.pieces_folder)
            temporary.mkdir()
            self._save_new_pieces(replay)
            self._write(temporary, step, state, write_policy)
            old = self.folder / f"{final.name}-old"
            if final.exists():  # this step was saved before; at every moment one of the two is there
                remove_tree(old)
                final.rename(old)
            temporary.rename(final)
            sync(self.folder)
            remove_tree(old)
        except OSError as error:
            remove_tree(temporary)
            needed = tensor_bytes(state) + self._bytes_to_save(replay)
            raise self._not_saved(step, error, needed, self._save_policy_alone(step, write_policy, last)) from error
        self._delete_policies_alone(until=step)
        self._delete_old()
        if self.reserve and not last:
            self.reserve.take()
        return final

    def _write(self, folder: Path, step: int, state: dict[str, Any], write_policy: Callable[[Path], None]) -> None:
        """Write the files of a checkpoint. All of them, and the replay, are on the disk when this returns."""
        tensors: dict[str, torch.Tensor] = {}
        manifest = {"format": FORMAT, "step": step, "task": self.task, "tree": flatten(state, tensors)}
        save_tensors(tensors, folder / STATE)
        write_policy(folder / layout.POLICY)
        manifest |= {"run": self.record} if self.record else {}
        manifest["files"] = {path.name: digest_of(path) for path in sorted(folder.iterdir())}
        manifest["pieces"] = self._pieces
        (folder / MANIFEST).write_text(seal(manifest))
        sync(folder / MANIFEST)
        sync(folder)

    def _not_saved(self, step: int, error: OSError, needed: int, policy: Path | None) -> NotSaved:
        run_dir = self.folder.parent
        left = f"{self.newest.name} is untouched" if self.newest else "No checkpoint was saved before"
        alone = f", and the policy alone was written to {policy}" if policy else ""
        resumed = "goes on with" if self.newest else "starts from the beginning with"
        return NotSaved(
            f"the checkpoint at step {step} could not be written to {self.folder} ({fault_text(error, needed, run_dir)}). "
            f"{left}{alone}. {advice(error)}; a run that has stopped {resumed}: flashsac resume {run_dir}"
        )

    def _save_policy_alone(self, step: int, write_policy: Callable[[Path], None], last: bool) -> Path | None:
        """A replay may be gigabytes too large for a disk that has room for what was learned from it."""
        final = self.folder / layout.policy_alone(step)
        if final.exists() or step in self._rescued:  # by the try before this one
            return final if final.exists() else self._rescued[step]
        if self.reserve and last:
            self.reserve.release()
        try:
            with replacing(final) as temporary:
                write_policy(temporary)
        except OSError:
            rescued = rescue_policy(self.folder.parent, step, write_policy) if last else None
            self._rescued |= {step: rescued} if rescued else {}
            return rescued
        self._delete_policies_alone(until=step - 1)
        return final

    def _delete_policies_alone(self, until: int) -> None:
        """Delete those up to this step: something better exists now."""
        for path in layout.policies_alone(self.folder):
            if layout.step_of(path) <= until:
                path.unlink(missing_ok=True)
        for step in [step for step in self._rescued if step <= until]:
            with contextlib.suppress(OSError):
                self._rescued.pop(step).unlink()

    def _save_new_pieces(self, replay: Replay) -> None:
        if any(not (self.pieces_folder / piece["file"]).exists() for piece in self._pieces):
            self._pieces, self._saved_until = [], replay.oldest  # somebody deleted one: write them all again
        first = max(self._saved_until, replay.oldest)
        rows = max(1, PIECE_BYTES // _row_bytes(replay))
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
                {"file": name, "first": first, "stop": stop, "sha256": digest_of(self.pieces_folder / name)}
            )
            first = self._saved_until = stop
        self._pieces = [piece for piece in self._pieces if piece["stop"] > replay.oldest]
        sync(self.pieces_folder)

    def _bytes_to_save(self, replay: Replay) -> int:
        """The size of what `_save_new_pieces` has not saved yet."""
        return max(0, replay.head - max(self._saved_until, replay.oldest)) * _row_bytes(replay)

    def save_again_from(self, step: int) -> None:
        """Steps from here on have changed since they were saved."""
        self._saved_until = min(self._saved_until, step)

    def _delete_old(self) -> None:
        for path in layout.checkpoint_folders(self.folder)[self.keep :]:
            remove_tree(path)
        self.delete_unused()

    def discard_after(self, step: int) -> None:
        """Delete the checkpoints after a step."""
        for path in layout.checkpoint_folders(self.folder):
            if layout.step_of(path) > step:
                remove_tree(path)

    def delete_unused(self) -> None:
        """Delete what no checkpoint needs: pieces of the replay and unfinished files, also those of a process that was
        killed."""
        remove_unfinished(self.folder.parent)
        needed = {piece["file"] for piece in self._pieces}
        for path in layout.checkpoint_folders(self.folder):
            try:
                needed |= {piece["file"] for piece in read_manifest(path)["pieces"]}
            except CheckpointError:
                return  # a damaged manifest: delete nothing that it might need
        for path in self.pieces_folder.glob("*.safetensors"):
            if path.name not in needed:
                path.unlink(missing_ok=True)

    # loading

    @property
    def newest(self) -> Path | None:
        """None if no checkpoint was ever finished."""
        return next(iter(layout.checkpoint_folders(self.folder)), None)

    def reached(self, steps: int, *, replay: bool = True) -> int | None:
        """The step of the newest checkpoint, if it is that far, whole, and has nothing left to do: not even an
        evaluation. Without `replay` only the rest is verified."""
        if self.newest is None or layout.step_of(self.newest) < steps:
            return None
        try:
            checkpoint = self.read(self.newest, replay=replay)
        except CheckpointError:
            return None
        return None if checkpoint.state.get("evaluation_due") else checkpoint.step

    def load(self) -> tuple[Checkpoint, list[str]]:
        """The newest that is whole, and what was wrong with newer ones, which are put aside."""
        problems: list[str] = []
        for forgiving in (False, True):  # only if none is whole, one that lost part of its replay will do
            aside: list[tuple[Path, str]] = []
            for path in layout.checkpoint_folders(self.folder):
                try:
                    checkpoint = self.read(path, forgiving=forgiving)
                except ForeignCheckpointError:
                    raise
                except CheckpointError as error:
                    problems += [] if forgiving else [str(error)]
                    aside.append((path, "other-run" if isinstance(error, OtherRunError) else "damaged"))
                    continue
                for other, kind in aside:
                    other.rename(free_name(other.with_name(f"{kind}-{other.name}")))
                return checkpoint, problems
        detail = "; ".join(problems) if problems else "it holds none"
        raise CheckpointError(f"no usable checkpoint in {self.folder}: {detail}. Train anew with another --run-dir.")

    def read(self, path: Path, *, forgiving: bool = False, replay: bool = True) -> Checkpoint:
        """One checkpoint, verified. `forgiving` leaves damaged pieces of the replay out; without `replay` all are left
        out."""
        manifest = read_manifest(path)
        check_owner(path, manifest, self.task, self.record)
        for name, digest in manifest["files"].items():
            if fault := fault_of(path / name, digest):
                raise CheckpointError(f"{path.name} is corrupt: {fault}")
        pieces = []
        for piece in manifest["pieces"] if replay else ():
            fault = fault_of(self.pieces_folder / piece["file"], piece["sha256"])
            if fault and not forgiving:
                raise CheckpointError(f"{path.name} is incomplete: {fault}, a piece of the replay")
            pieces += [] if fault else [piece]
        try:
            state = unflatten(manifest["tree"], load_file(path / STATE))
            check_state(state)
        except (SafetensorError, OSError, *MALFORMED) as error:
            detail = f"{type(error).__name__}: {error}"[:200]
            raise CheckpointError(f"{path.name} is corrupt: its state cannot be understood ({detail})") from error
        return Checkpoint(manifest["step"], state, pieces)

    def restore_replay(self, checkpoint: Checkpoint, replay: Replay) -> None:
        """Fill the ring from its pieces, oldest first, and go on adding to them."""
        for piece in checkpoint.pieces:
            replay.import_steps(piece["first"], load_file(self.pieces_folder / piece["file"]))
        self._pieces = list(checkpoint.pieces)
        self._saved_until = max((piece["stop"] for piece in checkpoint.pieces), default=0)


def _row_bytes(replay: Replay) -> int:
    """About the size of one step of all environments."""
    return sum(ring[0].nbytes for ring in (*replay.obs.values(), replay.action, replay.reward)) + 1


def fingerprint(spec: EnvSpec) -> dict[str, Any]:
    """What must be the same for a checkpoint to make sense."""
    more: dict[str, Any] = {"pixels": list(spec.pixels.shape)} if spec.pixels else {}
    more |= {"history": spec.history} if spec.history else {}
    return {"obs": spec.obs, "action_dim": spec.action_dim, "num_envs": spec.num_envs} | more


def check_same(saved: dict[str, Any], spec: EnvSpec) -> None:
    """Raise unless a checkpoint with this fingerprint was made in such environments."""
    if saved != fingerprint(spec):
        raise CheckpointError(
            f"the checkpoint was made with {saved}, but the environment now has {fingerprint(spec)}. Resume with the same "
            "environment, or train anew with another --run-dir."
        )
