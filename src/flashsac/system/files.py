"""Files: checked before the work whose result goes there, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from flashsac.errors import FlashSACError

UNFINISHED = ".writing-"
"""The names of unfinished files begin with this; a process that was killed may leave some behind."""


@contextlib.contextmanager
def replacing(path: Path, *, in_place: bool = False) -> Iterator[Path]:
    """Give a temporary path beside `path`; what was written there then replaces `path`. A failure leaves `path` as it was.

    The temporary name keeps the suffix, and no other process uses it. A link is replaced too, and what it leads to stays as it is.
    `in_place`, for files that the user names: what a link leads to, or a device (/dev/stdout), is written instead.
    """
    if in_place and (path.is_symlink() or (path.exists() and not path.is_file())):
        yield path
        return
    temporary = path.with_name(f"{UNFINISHED}{os.getpid()}-{path.name}")
    temporary.unlink(missing_ok=True)  # a link by that name would be followed
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(path: Path, data: str | bytes, *, in_place: bool = False) -> None:
    """Replace the file's content as a whole: readers see the old or the new one, also after a crash. Links as in `replacing`."""
    with replacing(path, in_place=in_place) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Delete a folder as far as possible. Of a link, only the link: what it leads to belongs to somebody else."""
    if path.is_symlink():
        with contextlib.suppress(OSError):
            path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def free_name(path: Path) -> Path:
    """The path itself, or the path with -2, -3, ... behind it if something lies there."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(found for found in itertools.chain([path], numbered) if not found.exists())


def check_writable(flag: str, path: Path) -> None:
    """Raise before the work whose result shall go there."""
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path.parent):
                pass
    except OSError as error:
        raise FlashSACError(f"{flag} {path} cannot be written ({error.strerror}). Name another file.") from None
