"""The manifest of a checkpoint: what it must hold before anything in it is used.

A checksum tells that a manifest is as it was written. It does not tell who wrote it. So names, types and numbers are
checked as well, and no name in it leads out of the run directory.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashsac.errors import CheckpointError
from flashsac.runs import layout
from flashsac.runs.seal import MALFORMED, seal, unseal

FORMAT = 1
MANIFEST = "manifest.json"
STATE = "state.safetensors"
_MOST_STEPS = 2**53
"""Largest step that a manifest may name."""


class ForeignCheckpointError(CheckpointError):
    """Whole, but not ours to load: falling back to an older one would be wrong."""


class OtherRunError(CheckpointError):
    """Whole, but made by another run: it was copied here by mistake."""


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a checkpoint, whole and of the right types; raises CheckpointError otherwise."""
    try:
        manifest = unseal((folder / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder.name} is corrupt: its manifest cannot be read ({error})") from error
    if manifest.get("format") != FORMAT:
        raise ForeignCheckpointError(
            f"{folder.name} has format {manifest.get('format')!s:.40}, this flashsac reads {FORMAT}. Use the version that wrote it."
        )
    try:
        _check(manifest)
    except MALFORMED as error:
        raise CheckpointError(f"{folder.name} is corrupt: its manifest is wrong ({_short(error)})") from error
    return manifest


def check_owner(folder: Path, manifest: dict[str, Any], task: str, record: dict[str, Any] | None) -> None:
    """Raise unless a checkpoint was made for this task and by this run. `record` is the run's config.json, None if not
    known."""
    if manifest["task"] != task:
        raise ForeignCheckpointError(
            f"{folder.name} was made for {manifest['task']}, not {task}. Resume it in its own run directory."
        )
    if record is not None and manifest.get("run", {}).get("id") != record.get("id"):
        raise OtherRunError(f"{folder.name} was made by another run of {task}: it is not loaded here")


def check_state(state: dict[str, Any]) -> None:
    """Raise ValueError where a checkpoint's state cannot be that of a run: counters that are none, numbers that are not
    finite."""
    agent = _dict(state, "agent")
    replay = _dict(agent, "replay")
    counts = {"updates": agent["updates"]} | {name: replay[name] for name in ("head", "tail", "finals", "invalid")}
    for name, value in counts.items():
        _count(value, name)
    for name in ("owed", "seconds"):
        if not (_is_number(state[name]) and math.isfinite(state[name]) and state[name] >= 0):
            raise ValueError(f"{name} is {state[name]!r}")
    for name in ("spec", "obs", "episodes", "metrics"):
        _dict(state, name)


def digest_in_manifest(folder: Path, name: str) -> str | None:
    """The checksum that a checkpoint's manifest has for one of its files; None without a manifest that can be read."""
    try:
        return read_manifest(folder)["files"].get(name)
    except CheckpointError:
        return None


def saved_records(run_dir: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The copies of config.json in the checkpoints whose manifest is whole, newest first."""
    for folder in layout.checkpoint_folders(run_dir / layout.CHECKPOINTS):
        try:
            record = read_manifest(folder).get("run", {})
        except CheckpointError:
            continue
        if "config" in record:
            yield folder, record


def adopt(run_dir: Path, record: dict[str, Any]) -> None:
    """Make the checkpoints that were copied from another run this run's own. Those that cannot be read stay as they
    are."""
    for folder in layout.checkpoint_folders(run_dir / layout.CHECKPOINTS):
        try:
            manifest = read_manifest(folder)
        except CheckpointError:
            continue
        (folder / MANIFEST).write_text(seal(manifest | {"run": record}))


def _check(manifest: dict[str, Any]) -> None:
    _count(manifest["step"], "step")
    if not isinstance(manifest["task"], str):
        raise TypeError("task is no text")
    if not isinstance(manifest.get("run", {}), dict):
        raise TypeError("run is no dict")
    if STATE not in manifest["files"]:
        raise ValueError(f"there is no checksum of {STATE}")
    for name, digest in manifest["files"].items():
        _plain_name(name)
        _digest(digest)
    for piece in manifest["pieces"]:
        _plain_name(piece["file"])
        _digest(piece["sha256"])
        _count(piece["first"], "first")
        _count(piece["stop"], "stop")
        if piece["first"] >= piece["stop"]:
            raise ValueError(f"a piece of the replay ends at step {piece['stop']}, before it begins")


def _dict(parent: Any, name: str) -> dict[str, Any]:
    if not isinstance(parent, dict) or not isinstance(parent[name], dict):
        raise TypeError(f"{name} is no dict")
    return parent[name]


def _plain_name(name: Any) -> None:
    plain = isinstance(name, str) and name == Path(name).name and len(os.fsencode(name)) <= 255 and "\0" not in name
    if not plain or name in ("", ".", ".."):
        raise ValueError(f"{name!r:.60} is no name of a file beside it")


def _digest(value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError("a checksum is no text")


def _count(value: Any, name: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_STEPS:
        raise ValueError(f"{name} is {value!r:.60}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]
