"""Compiling what runs in the training loop."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from flashsac.system.cache import users_cache, why_not_ours
from flashsac.system.children import children_on_safe_path
from flashsac.training.compile_cache import Compiled
from flashsac.types import Compiler

CACHE = "TORCHINDUCTOR_CACHE_DIR"
"""The variable that names the folder where torch keeps compiled code, and we do."""


def compiler_for(device: torch.device, say: Callable[[str], None] = print) -> Compiler:
    """Make one graph of a whole method, gradients and optimizer included. On CUDA it is replayed as a CUDA graph."""
    _choose_cache(say)
    import torch._dynamo  # takes the variable as it stands now

    torch._dynamo.config.trace_autograd_ops = True
    return _cuda_graph if device.type == "cuda" else Compiled


def _choose_cache(say: Callable[[str], None]) -> None:
    """Compiled code is kept where reboots do not reach: compiling takes a minute, loading what was compiled before
    takes seconds.

    Loading it runs it. Where somebody else may have put it, everything is compiled anew, in a folder for this process
    alone.
    """
    cache = Path(os.environ[CACHE]) if os.environ.get(CACHE) else users_cache("compiled")
    problem = None if cache is None else why_not_ours(cache)
    if problem:
        say(f"warning: {problem}: compiled code there is not trusted, so everything is compiled anew")
    if cache is None or problem:
        cache = Path(tempfile.mkdtemp(prefix="flashsac-compiled-"))
        atexit.register(shutil.rmtree, cache, ignore_errors=True)
    os.environ[CACHE] = str(cache)


def _cuda_graph(function: Callable) -> Callable:
    """Compile for CUDA graphs. This was not run on a GPU yet."""
    torch._dynamo.config.recompile_limit = 64  # agents of several sizes in one process, each with its own graph
    graphed = torch.compile(function, fullgraph=True, dynamic=False, mode="reduce-overhead")

    def call(*args):
        torch.compiler.cudagraph_mark_step_begin()
        with children_on_safe_path():  # the first call compiles
            made = graphed(*args)
        # The next replay overwrites what this one returns, and metrics are read much later.
        return torch.utils._pytree.tree_map(torch.clone, made)

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
