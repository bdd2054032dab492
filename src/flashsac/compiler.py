"""Compiling what runs in the loop, and choosing its precision by measurement."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import shutil
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from flashsac.config import Precision
from flashsac.types import Compiler

DTYPES: dict[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def compiler_for(device: torch.device) -> Compiler:
    """Makes one graph of a whole method, gradients and optimizer included; on CUDA it is replayed as a CUDA graph."""
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        # Kept where reboots do not reach: compiling takes a minute, loading what was compiled before takes seconds.
        with contextlib.suppress(OSError, RuntimeError):  # no home, or not ours to write to: torch's own place will do
            cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "flashsac", "compiled")
            cache.mkdir(parents=True, exist_ok=True)
            if os.access(cache, os.W_OK):  # it may be there and still be somebody else's
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    import torch._dynamo  # takes the variable as it stands now

    torch._dynamo.config.trace_autograd_ops = True
    return _cuda_graph if device.type == "cuda" else Compiled


class Compiled:
    """A bound method, compiled for the arguments of its first call and kept on disk.

    Even with all its kernels in the cache, torch.compile traces for many seconds in every new process; this is loaded in a
    tenth of one. It checks what it is given only once: later calls must have the same types and shapes, else torch's own
    asserts fail.
    """

    def __init__(self, method: Any):
        self._owner, self._function = method.__self__, method.__func__
        self._run: Callable | None = None

    def __call__(self, *args: Any) -> Any:
        if self._run is None:
            path = self._path(args)
            self._run = functools.partial((self._load(path, args) or self._compile(path, args)).fn, self._owner)
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
        with _deaf_children():
            made = compiled.aot_compile(((self._owner, *args), {}))
        with contextlib.suppress(Exception):  # a full disk, for example: the next process compiles again
            path.parent.mkdir(parents=True, exist_ok=True)
            # Under a name of its own first: two runs started together may write the same file.
            unfinished = path.with_suffix(f".{os.getpid()}")
            made.save_compiled_function(str(unfinished))
            unfinished.replace(path)
        return made

    def _path(self, args: tuple) -> Path:
        """Another file for everything that other code would be generated for."""
        from torch._inductor.runtime.cache_dir_utils import cache_dir

        machine = (platform.machine(), torch.backends.cpu.get_cpu_capability(), torch.get_num_threads())
        versions = (torch.__version__, platform.python_version(), _source_digest(), _names())
        everything = (_description((self._owner, args)), torch.is_grad_enabled(), machine, versions)
        digest = hashlib.sha256(repr(everything).encode()).hexdigest()[:32]
        return Path(cache_dir(), "flashsac", f"{self._function.__name__}-{digest}")


@contextlib.contextmanager
def _deaf_children() -> Iterator[None]:
    """A terminal sends Ctrl-C to the C++ compiler too. It would die of it, and with it the run; or torch's question what this
    processor can do, and the answer is kept. What starts in here has those signals blocked; they are for us to answer."""
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
def _source_digest() -> str:
    files = [Path(__file__), *sorted((Path(__file__).parent / "core").glob("*.py"))]
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


def _cuda_graph(function: Callable) -> Callable:
    """Not run on a GPU yet."""
    torch._dynamo.config.recompile_limit = 64  # agents of several sizes in one process, each with its own graph
    graphed = torch.compile(function, fullgraph=True, dynamic=False, mode="reduce-overhead")

    def call(*args):
        torch.compiler.cudagraph_mark_step_begin()
        # The next replay overwrites what this one returns, and metrics are read much later.
        return torch.utils._pytree.tree_map(torch.clone, graphed(*args))

    return call


def compiler_missing() -> str | None:
    """Why nothing can be compiled here, or None."""
    # The one that torch will call, and no other that may be there.
    wanted = os.environ.get("CXX") or ("clang++" if sys.platform == "darwin" else "g++")
    slower = "so everything runs uncompiled, about half as fast"
    if not shutil.which(wanted):
        return f"no C++ compiler was found ({wanted}), {slower} (apt-get install g++ python3-dev, or name yours in CXX)"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return f"Python's headers are missing, {slower} (apt-get install python3-dev)"
    return None


def fastest_precision(device: torch.device) -> Precision:
    """bf16, or where that is missing fp16, if it multiplies matrices clearly faster than fp32; some CPUs only emulate them."""
    seconds = product_seconds(device)
    worthwhile: list[Precision] = [name for name in ("bf16", "fp16") if seconds[name] < 0.8 * seconds["fp32"]]
    return worthwhile[0] if worthwhile else "fp32"


def precision_notes(device: torch.device, precision: str) -> list[str]:
    """What to say of a run's precision; it may have been chosen on another device."""
    if precision == "fp32":
        return []
    seconds = product_seconds(device)
    ratio = seconds[precision] / seconds["fp32"]
    slow = f"note: products in {precision} take {ratio:.0f} times as long as in fp32 here; a run keeps the precision it began with"
    return [f"matrix products in {precision} (for full precision: --precision fp32)", *([slow] if ratio > 2 else [])]


def product_seconds(device: torch.device) -> dict[str, float]:
    """The best of several timings of one matrix product in each type. They take turns, so that a busy moment does not decide."""
    size = 512 if device.type == "cpu" else 4096  # large enough that launching is not what is measured
    operands = {name: torch.ones(size, size, device=device, dtype=dtype) for name, dtype in DTYPES.items()}
    best = dict.fromkeys(DTYPES, float("inf"))
    stop = time.perf_counter() + 0.2
    turn = 0
    while turn < 8 or time.perf_counter() < stop:
        for name, x in operands.items():
            if turn >= 2 and best[name] > 3 * best["fp32"]:
                continue  # hopeless, and slow
            start = time.perf_counter()
            (x @ x)[0, 0].item()  # .item() waits for the device
            best[name] = min(best[name], time.perf_counter() - start)
        turn += 1
    return best
