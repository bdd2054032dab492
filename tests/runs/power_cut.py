"""A disk that loses power: replays the system calls that strace recorded, and shows what a cut may leave of them.

The model is pessimistic. A file's content survives as it was when the file was last synced, and a folder's list of names as it was
when the folder was last synced. What came later may have reached the disk or not, each folder and each file by itself.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

CALLS = "openat,lseek,write,pwrite64,writev,ftruncate,rename,renameat,renameat2,mkdir,mkdirat,unlink,unlinkat,rmdir,fsync,fdatasync"
STRACE = ["strace", "-f", "-y", "-qq", "-xx", "-s", "100000000", "--signal=none", "-e", f"trace={CALLS}"]


class File:
    """The content as processes see it, and as the last sync left it."""

    def __init__(self) -> None:
        self.now, self.synced = b"", b""


class Folder:
    """The names as processes see them, and every state they had since the last sync, the synced one first."""

    def __init__(self) -> None:
        self.now: dict[str, File | Folder] = {}
        self.since_sync: list[dict[str, File | Folder]] = [{}]

    def change(self, name: str, node: File | Folder | None) -> None:
        self.now = {other: there for other, there in self.now.items() if other != name} | ({name: node} if node else {})
        self.since_sync.append(self.now)


Choice = tuple[Callable[[Folder], dict[str, File | Folder]], Callable[[File], bytes]]
NOTHING_SINCE_SYNC: Choice = (lambda folder: folder.since_sync[0], lambda file: file.synced)
NAMES_WITHOUT_DATA: Choice = (lambda folder: folder.now, lambda file: file.synced)
NAMES_AND_ZEROS: Choice = (
    lambda folder: folder.now,
    lambda file: file.synced + bytes(max(0, len(file.now) - len(file.synced))),
)
ALL: Choice = (lambda folder: folder.now, lambda file: file.now)


def at_random(rng: random.Random) -> Choice:
    """Every folder as it was at some moment since its last sync, every file with or without what was written since."""
    return (lambda folder: rng.choice(folder.since_sync), lambda file: rng.choice([file.synced, file.now]))


class Disk:
    """Everything below `root`, which itself is safe."""

    def __init__(self, root: Path):
        self._root, self._top = root, Folder()
        self._offsets: dict[str, int | None] = {}
        """Where the next write to a descriptor goes; None: to the end."""

    def _find(self, path: Path) -> File | Folder | None:
        node: File | Folder | None = self._top
        for name in path.relative_to(self._root).parts:
            node = node.now.get(name) if isinstance(node, Folder) else None
        return node

    def _change(self, path: Path, node: File | Folder | None) -> None:
        folder = self._find(path.parent)
        assert isinstance(folder, Folder), path
        folder.change(path.name, node)

    def apply(self, call: str, arguments: list[str], result: int) -> bool:
        """True if something on the disk has changed."""
        paths = [Path(os.path.normpath(path)) for path in map(_path, arguments) if path is not None]
        paths = [path for path in paths if self._root in (path, *path.parents)]
        if not paths or result < 0:
            return False
        node = self._find(paths[0])
        if call == "openat":
            self._offsets[str(result)] = None if "O_APPEND" in arguments[2] else 0
            if "O_CREAT" in arguments[2] and node is None:
                self._change(paths[0], File())
            elif "O_TRUNC" in arguments[2] and isinstance(node, File):
                node.now = b""
            else:
                return False
        elif call == "lseek":
            descriptor = arguments[0].split("<")[0]
            self._offsets[descriptor] = None if self._offsets.get(descriptor, 0) is None else result
            return False
        elif call in ("write", "pwrite64", "ftruncate") and isinstance(node, File):
            descriptor = arguments[0].split("<")[0]
            if call == "ftruncate":
                size = int(arguments[1])
                node.now = node.now[:size] + bytes(max(0, size - len(node.now)))
                return True
            offset = self._offsets.get(descriptor)
            at = int(arguments[3]) if call == "pwrite64" else len(node.now) if offset is None else offset
            node.now = node.now[:at] + _bytes(arguments[1])[:result] + node.now[at + result :]
            if offset is not None and call == "write":
                self._offsets[descriptor] = at + result
        elif call.startswith("rename"):
            assert node is not None
            self._change(paths[0], None)
            self._change(paths[1], node)
        elif call.startswith("mkdir"):
            self._change(paths[0], Folder())
        elif call in ("unlink", "unlinkat", "rmdir"):
            self._change(paths[0], None)
        elif call in ("fsync", "fdatasync"):
            if isinstance(node, Folder):
                node.since_sync = [node.now]
            elif node is not None:
                node.synced = node.now
        else:
            raise AssertionError(f"{call} of {paths[0]} is not understood")
        return True

    def after_a_cut(self, choice: Choice) -> dict[str, bytes | None]:
        """What is left: the content by path, None for a folder."""
        return dict(self._left(self._top, "", choice))

    def _left(self, folder: Folder, prefix: str, choice: Choice) -> Iterator[tuple[str, bytes | None]]:
        names, data = choice
        for name, node in names(folder).items():
            if isinstance(node, File):
                yield prefix + name, data(node)
            else:
                yield prefix + name, None
                yield from self._left(node, f"{prefix}{name}/", choice)


def calls(recorded: Path) -> Iterator[tuple[str, list[str], int]]:
    """Name, arguments and result of every call that has ended, in this order."""
    begun: dict[str, str] = {}
    for line in recorded.read_text().splitlines():
        thread, _, text = line.partition(" ")
        text = text.strip()
        if text.endswith("<unfinished ...>"):
            begun[thread] = text.removesuffix("<unfinished ...>").rstrip()
            continue
        if resumed := re.match(r"<\.\.\. \w+ resumed>", text):
            text = begun.pop(thread) + text[resumed.end() :]
        if found := re.match(r"(\w+)\((.*)\)\s+= (-?\d+)", text):
            yield found[1], found[2].split(", "), int(found[3])


def _path(argument: str) -> str | None:
    """The path that an argument is, or that belongs to its descriptor."""
    if found := re.fullmatch(r'(?:\w+<.*>|"(.*)")', argument):
        text = found[1] if found[1] is not None else argument[argument.index("<") + 1 : -1]
        path = os.fsdecode(_unescaped(text))
        return path if path.startswith("/") else None
    return None


def text_of(argument: str) -> str:
    """What was written, as text."""
    return _bytes(argument).decode(errors="replace")


def _bytes(argument: str) -> bytes:
    return _unescaped(argument.strip('"'))


def _unescaped(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", "")) if text.startswith("\\x") else text.encode()
