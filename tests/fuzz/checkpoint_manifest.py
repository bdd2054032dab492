"""The manifest of a checkpoint, with a right checksum, so that its content is looked at."""

from __future__ import annotations

import functools
import hashlib
import json
import tempfile
from pathlib import Path

import torch

from flashsac.errors import FlashSACError
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.manifest import MANIFEST, saved_records
from flashsac.runs.seal import digest_of, seal
from flashsac.runs.tree import flatten, save_tensors

TASK, NAME, PIECE = "custom:point", "step-000000000100", "000000000000-000000000100-1.safetensors"


@functools.cache
def _run() -> tuple[tempfile.TemporaryDirectory, Path]:
    """A run directory with one checkpoint; it is deleted with the process."""
    kept = tempfile.TemporaryDirectory()
    run = Path(kept.name)
    (run / "checkpoints" / NAME).mkdir(parents=True)
    (run / "replay").mkdir()
    save_tensors({"reward": torch.zeros(3)}, run / "replay" / PIECE)
    return kept, run


@functools.cache
def _valid() -> bytes:
    run = _run()[1]
    folder = run / "checkpoints" / NAME
    counters = {"head": 100, "tail": 0, "finals": 3, "invalid": 0, "lost": 0, "holes": [[10, 20]]}
    state = {
        "spec": {"obs": {"actor": 3}, "action_dim": 1, "num_envs": 1},
        "agent": {"replay": counters, "updates": 7, "acting_rng": torch.zeros(4)},
        "obs": {"actor": torch.zeros(1, 3)},
        "episodes": {"count": 3},
        "metrics": {},
        "owed": 0.5,
        "best": [0.0, -1.5],
        "seconds": 3.5,
        "env": None,
    }
    tensors: dict[str, torch.Tensor] = {}
    tree = flatten(state, tensors)
    save_tensors(tensors, folder / "state.safetensors")
    manifest = {
        "format": 1,
        "step": 100,
        "task": TASK,
        "tree": tree,
        "run": {"id": "ab12", "task": TASK, "config": {"seed": 1}},
        "files": {"state.safetensors": digest_of(folder / "state.safetensors")},
        "pieces": [{"file": PIECE, "first": 0, "stop": 100, "sha256": digest_of(run / "replay" / PIECE)}],
    }
    return json.dumps(manifest).encode()


def seeds() -> list[bytes]:
    """The manifest's JSON."""
    return [_valid()]


def attack(data: bytes) -> bool:
    """The bytes with a right checksum, and as the whole file."""
    _valid()
    run, accepted = _run()[1], False
    line = data.replace(b"\n", b" ")
    for content in (
        line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n",
        data,
        seal({"data": repr(data)}).encode(),
    ):
        (run / "checkpoints" / NAME / MANIFEST).write_bytes(content)
        store = CheckpointStore(run, TASK, record={"id": "ab12"})
        try:
            checkpoint, _ = store.load()
            checkpoint.lost_steps(0, 100)
            accepted = True
        except FlashSACError:
            pass
        store.reached(100)
        for _ in saved_records(run):
            pass
    return accepted
