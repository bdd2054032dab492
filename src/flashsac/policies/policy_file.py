"""The file format of a policy: safetensors, with our JSON header and a checksum of the whole file in its metadata."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from flashsac.runs import layout
from flashsac.runs.manifest import digest_in_manifest
from flashsac.runs.seal import CHECKSUM, parse_object
from flashsac.system.files import sync

KEY = "flashsac_policy"
"""The key of our header in the file's metadata."""
HEADER_LIMIT = 100_000_000
"""Bytes; that of the safetensors library."""
_UNSEALED = "0" * 64
"""The place holder of the checksum while it is computed."""
_SEAL = re.compile(rb'"sha256":"([0-9a-f]{64})"')


def write_policy_file(path: Path, meta: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write the file and wait until it is on the disk. The checksum is computed before anything is written."""
    content = _ordered(save(tensors, {KEY: json.dumps(meta), CHECKSUM: _UNSEALED}))
    digest = hashlib.sha256(content).hexdigest()
    path.write_bytes(_SEAL.sub(f'"{CHECKSUM}":"{digest}"'.encode(), content, count=1))
    sync(path)


def _ordered(content: bytes) -> bytes:
    """The file with its metadata in order: safetensors writes it in a random one, but a policy shall give the same
    bytes each time."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # aligned, as the format wants it
    return len(text).to_bytes(8, "little") + text + content[end:]


def read_policy_file(file: Path) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    """The header and the tensors; no header where another program wrote the file. A damaged file raises ValueError.

    Files of earlier versions have no checksum. In a checkpoint's folder, the manifest has one for them."""
    with file.open("rb") as opened:
        length = opened.read(8)
        size = int.from_bytes(length, "little")
        if len(length) < 8 or size > min(HEADER_LIMIT, file.stat().st_size - 8):
            raise ValueError("its header is longer than the file")
        header = opened.read(size)
        metadata = parse_object(header.decode()).get("__metadata__")
        if not isinstance(metadata, dict) or KEY not in metadata:
            return None, {}
        body = opened.read()
    if (digest := metadata.get(CHECKSUM)) is not None:
        unsealed = _SEAL.sub(f'"{CHECKSUM}":"{_UNSEALED}"'.encode(), header, count=1)
    else:
        unsealed = header
        digest = digest_in_manifest(file.parent, file.name) if layout.is_checkpoint(file.parent) else None
    wrong = digest is not None and digest != hashlib.sha256(length + unsealed + body).hexdigest()
    # Other metadata than ours is ours, damaged: a checksum under another name would not be looked at.
    if wrong or metadata.keys() - {KEY, CHECKSUM}:
        raise ValueError("its checksum is wrong")
    return parse_object(metadata[KEY]), load(length + header + body)
