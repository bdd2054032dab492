"""Files: checked before the work whose result goes there, written whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError

UNFINISHED = ".writing-"
"""The names of unfinished files begin with this; a process that was killed may leave some behind."""


@contextlib.contextmanager
def replacing(path: Path, *, in_place: bool = False) -> Iterator[Path]:
    """Give a temporary path beside `path`; what was written there then replaces `path`. A failure leaves `path` as it
    was.

    The temporary name keeps the suffix, and no other process uses it. A link is replaced too, and what it leads to
    stays as it is. `in_place`, for files that the user names: what a link leads to, or a device (/dev/stdout), is
    written instead.
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
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_atomic(path: Path, data: str | bytes, *, in_place: bool = False) -> None:
    """Replace the file's content as a whole: readers see the old or the new one, also after a crash. Links as in
    `replacing`."""
    with replacing(path, in_place=in_place) as temporary:
        temporary.write_bytes(data.encode() if isinstance(data, str) else data)


def write_csv(path: Path, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Path:
    """Write a table that the user names, as a whole or not at all; returns the file."""
    with replacing(path, in_place=True) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return path


def append_line(path: Path, line: str) -> None:
    """Append a line as a whole, or not at all. Half a line that an earlier failure left at the end is removed first."""
    with path.open("a+b", buffering=0) as file:
        end = _end_of_last_line(file)
        file.truncate(end)
        rest = memoryview(line.encode() + b"\n")
        try:
            while rest:
                rest = rest[file.write(rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(end)
            raise


def _end_of_last_line(file: io.RawIOBase) -> int:
    end = file.seek(0, os.SEEK_END)
    while end:
        start = file.seek(max(0, end - 4096))
        if (found := file.read(end - start).rfind(b"\n")) >= 0:
            return start + found + 1
        end = start
    return 0


def make_folder(path: Path) -> None:
    """Make a folder that survives a power cut. Its parent must exist."""
    if not path.is_dir():
        path.mkdir(exist_ok=True)
        sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on the disk."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        if path.is_dir():  # one that may be entered but not read; Windows opens none
            return
        raise
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not (path.is_dir() and error.errno in (errno.EINVAL, errno.ENOTSUP)):  # some network file systems
            raise
    finally:
        os.close(descriptor)


def remove_tree(path: Path) -> None:
    """Delete a folder or file as far as possible. Of a link, only the link: what it leads to belongs to somebody
    else."""
    if path.is_symlink() or path.is_file():
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
