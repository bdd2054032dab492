"""A compiled method that is kept on disk, so that the next process need not compile it again."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import platform
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

import flashsac.core
from flashsac.system.children import children_on_safe_path
from flashsac.system.files import replacing


class Compiled:
    """A bound method, compiled for the arguments of its first call and kept on disk.

    Even with all its kernels in the cache, torch.compile traces for many seconds in every new process; this is loaded
    in a tenth of one. It checks what it is given only once: later calls must have the same types and shapes, else
    torch's own asserts fail.
    """

    def __init__(self, method: Any):
        self._owner, self._function = method.__self__, method.__func__
        self._run: Callable | None = None

    def __call__(self, *args: Any) -> Any:
        if self._run is None:
            path = self.path(args)
            with children_on_safe_path():  # torch asks a child what this processor can do
                found = self._load(path, args) or self._compile(path, args)
            self._run = functools.partial(found.fn, self._owner)
        return self._run(*args)

    def _load(self, path: Path, args: tuple) -> Any:
        try:
            with open(path, "rb") as file:
                found = torch.compiler.load_compiled_function(file)
            return found if found.guard_check(self._owner, *args) else None  # type: ignore[attr-defined]
        except Exception:  # missing, cut short, of another version: whatever it is, compiling anew is the answer
            return None

    def _compile(self, path: Path, args: tuple) -> Any:
        compiled: Any = torch.compile(self._function, fullgraph=True, dynamic=False)
        with children_ignore_signals():
            made = compiled.aot_compile(((self._owner, *args), {}))
        with contextlib.suppress(Exception):  # a full disk, for example: the next process compiles again
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as temporary:  # two runs started together may write the same file
                made.save_compiled_function(str(temporary))
        return made

    def path(self, args: tuple) -> Path:
        """The file it is kept in: another one for everything that other code would be generated for."""
        from torch._inductor.runtime.cache_dir_utils import cache_dir

        machine = (platform.machine(), torch.backends.cpu.get_cpu_capability(), torch.get_num_threads())
        versions = (
            torch.__version__,
            platform.python_version(),
            source_digest(Path(flashsac.core.__path__[0])),
            _names(),
        )
        everything = (_description((self._owner, args)), torch.is_grad_enabled(), machine, versions)
        digest = hashlib.sha256(repr(everything).encode()).hexdigest()[:32]
        return Path(cache_dir(), "flashsac", f"{self._function.__name__}-{digest}")


@contextlib.contextmanager
def children_ignore_signals() -> Iterator[None]:
    """A terminal sends Ctrl-C to the C++ compiler too. It would die of it, and with it the run; or torch's question
    what this processor can do, and the answer is kept. What starts in here has those signals blocked; they are for us
    to answer."""
    numbers = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    done = threading.Event()
    listener = threading.Thread(target=done.wait, daemon=True)  # of whose signals none is blocked
    listener.start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        done.set()
        listener.join()


def _description(x: Any) -> Any:
    """All that can influence a trace: shapes and constants, not what is in the tensors."""
    if isinstance(x, torch.Tensor):
        return ("tensor", tuple(x.shape), x.stride(), str(x.dtype), str(x.device), x.requires_grad)
    if isinstance(x, dict):
        return [(key, _description(value)) for key, value in x.items()]
    if isinstance(x, list | tuple):
        return [_description(value) for value in x]
    if hasattr(x, "__qualname__"):  # a class or a function
        return f"{x.__module__}.{x.__qualname__}"
    return (type(x).__qualname__, _description(vars(x))) if hasattr(x, "__dict__") else repr(x)


@functools.cache
def source_digest(core: Path) -> str:
    """A checksum of the algorithm's sources and of what compiles them."""
    sources = sorted(core.rglob("*.py"))
    if not sources:  # or stale compiled code would be loaded in silence
        raise FileNotFoundError(f"no source of the algorithm was found in {core}")
    beside = [Path(__file__).with_name(name) for name in ("compile.py", "distributed.py")]
    files = [Path(__file__), *beside, *sources]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _names() -> list[str]:
    """What the algorithm's names stand for now: somebody may have put something else there, for an experiment."""
    paths = [path for path in sorted(sys.modules) if path.startswith("flashsac.core.")]
    modules: list[Any] = [sys.modules[path] for path in paths]
    classes: list[Any] = [
        x for m in modules for x in vars(m).values() if isinstance(x, type) and x.__module__ == m.__name__
    ]
    return [
        f"{owner.__name__}.{name} is {x.__module__}.{x.__qualname__}"
        for owner in (*modules, *classes)
        for name, x in vars(owner).items()
        if hasattr(x, "__qualname__") and hasattr(x, "__module__")
    ]
