"""Environments in processes of their own, for simulators that hold one environment a process; they step while we learn.

Numbers travel through shared memory, a row for each environment; a pipe to each worker carries commands and what is
odd-sized.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from multiprocessing import util
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from flashsac.errors import BadSimulation, FlashSACError
from flashsac.sims.base import first_obs
from flashsac.sims.vector.sequential import OneEnv, SequentialVecEnv, environment_seeds
from flashsac.sims.vector.shared_rows import SharedRows
from flashsac.system.children import children_on_safe_path
from flashsac.types import EnvSpec, Obs, Step

CLOSING_SECONDS = 5.0
"""Workers that have not ended by then are killed."""
PATIENCE = 600.0
"""Seconds that a worker may take for one answer; a simulator that hangs would otherwise hang the run for ever."""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class DescribedEnv(OneEnv, Protocol):
    """A OneEnv that knows its shape: it is made in the worker, so nobody else could tell."""

    spec: EnvSpec
    """The spec of this one environment."""


class WorkerVecEnv:
    """One `DescribedEnv` a process. `make` is pickled: a module-level function, or a functools.partial of one."""

    def __init__(self, make: Callable[[], DescribedEnv], num_envs: int):
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        # Runs when this object is collected or the interpreter ends, before multiprocessing would wait for its
        # children.
        self._stop = util.Finalize(self, _stop, (self._processes, self._pipes), exitpriority=100)
        try:
            with _child_surroundings(), children_on_safe_path():
                for index in range(num_envs):
                    self._start(make, index)
            first: EnvSpec = self._replies()[0]
            self.spec = dataclasses.replace(first, num_envs=num_envs, can_save_state=True)
            self._rows = SharedRows(self.spec)
            self._ask("attach", [(self.spec, self._rows.name, index) for index in range(num_envs)])
            self._rows.forget_name()
        except BaseException:
            self.close()
            raise

    def _start(self, make: Callable[[], DescribedEnv], index: int) -> None:
        # A fork would copy locks and GPU contexts in whatever state they are.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, make), name=f"environment-{index}", daemon=True)
        process.start()
        theirs.close()  # or a dead worker's pipe would never read as ended
        self._processes.append(process)
        self._pipes.append(ours)

    # --- the contract -------------------------------------------------------------------------------------------------

    def reset(self, seed: int) -> Obs:
        self._ask("reset", environment_seeds(seed, self.spec.num_envs))
        return first_obs(self._rows.group("obs"))

    def step(self, action: Tensor) -> Step:
        self.send(action)
        return self.receive()

    def send(self, action: Tensor) -> None:
        self._rows["action"][:] = action.numpy()
        self._send("step", [None] * self.spec.num_envs)

    def receive(self) -> Step:
        infos = self._replies()
        rows = self._rows
        ended = {name: rows.copy(name) for name in ("reward", "terminated", "truncated", "valid")}
        obs, final_obs = (
            {key: rows.copy(f"{kind}/{key}") for key in self.spec.groups} for kind in ("obs", "final_obs")
        )
        silent = np.full(1, np.nan)
        keys = dict.fromkeys(key for info in infos for key in info)
        info = {key: np.concatenate([info.get(key, silent) for info in infos]) for key in keys}
        return Step(obs=obs, final_obs=final_obs, info=info, **ended)

    def render(self) -> np.ndarray:
        self._send_to(0, "render", None)
        return self._reply(0)

    def state_dict(self) -> dict[str, Any]:
        states = self._ask("state_dict", [None] * self.spec.num_envs)
        return {"episodes": [state["episodes"][0] for state in states]}

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        if len(state["episodes"]) != self.spec.num_envs:
            return False
        return all(self._ask("load_state_dict", [{"episodes": [episode]} for episode in state["episodes"]]))

    def close(self) -> None:
        self._stop()  # once; later calls do nothing

    # --- talking to the workers ---------------------------------------------------------------------------------------

    def _ask(self, command: str, arguments: list[Any]) -> list[Any]:
        self._send(command, arguments)
        return self._replies()

    def _send(self, command: str, arguments: list[Any]) -> None:
        for index, argument in enumerate(arguments):
            self._send_to(index, command, argument)

    def _send_to(self, index: int, command: str, argument: Any) -> None:
        try:
            self._pipes[index].send((command, argument))
        except OSError as error:
            raise self._obituary(index) from error

    def _replies(self) -> list[Any]:
        return [self._reply(index) for index in range(len(self._pipes))]

    def _reply(self, index: int) -> Any:
        try:
            if not self._pipes[index].poll(PATIENCE):
                raise BadSimulation(
                    f"the process of environment {index} has not answered for {PATIENCE / 60:.0f} minutes: its simulator hangs. "
                    "Training can go on from its last checkpoint: flashsac resume RUN_DIR."
                )
            reply = self._pipes[index].recv()
        except (EOFError, OSError) as error:
            raise self._obituary(index) from error
        if isinstance(reply, FlashSACError):
            raise reply
        return reply

    def _obituary(self, index: int) -> BadSimulation:
        process = self._processes[index]
        process.join(CLOSING_SECONDS)
        code = process.exitcode
        if code is None:
            how = "closed its pipe"
        elif code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"ended with exit code {code}"
        hint = " Linux does that when memory runs out: try fewer --env.num-envs." if code == -signal.SIGKILL else ""
        return BadSimulation(
            f"the process of environment {index} {how}.{hint} What it printed before is above. "
            "Training can go on from its last checkpoint: flashsac resume RUN_DIR."
        )


@contextlib.contextmanager
def _child_surroundings() -> Iterator[None]:
    """What the workers are born into.

    One thread each: NumPy and PyTorch read their limits when they are imported. And an empty __main__: otherwise Python
    would run the user's script again in every worker, training and all, unless it is guarded by `if __name__ ==
    "__main__"`.
    """
    main, before = sys.modules["__main__"], {name: os.environ.get(name) for name in ONE_THREAD}
    sys.modules["__main__"] = types.ModuleType("__main__")
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _stop(processes: list[Any], pipes: list[Connection]) -> None:
    for pipe in pipes:
        pipe.close()  # a worker ends when it reads the end of its pipe
    deadline = time.monotonic() + CLOSING_SECONDS
    for process in processes:
        process.join(max(0.0, deadline - time.monotonic()))
        if process.exitcode is None:
            process.kill()
            process.join()


# --- in the worker ----------------------------------------------------------------------------------------------------


def _work(pipe: Connection, make: Callable[[], DescribedEnv]) -> None:
    # Ctrl-C and a scheduler's SIGTERM reach the whole group; the trainer decides when to stop, and still needs us to.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    worker = _Worker()
    with contextlib.suppress(EOFError, OSError):  # the trainer has closed the pipe, or is gone
        pipe.send(_attempt(worker.start, make))
        while True:
            command, argument = pipe.recv()
            pipe.send(_attempt(getattr(worker, command), argument))
    worker.close()
    os._exit(0)  # taking down the interpreter takes seconds with some simulators, and crashes with others


def _die_with_parent() -> None:
    """Even when the simulator never returns and nobody looks at the pipe."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _attempt(function: Callable[[Any], Any], argument: Any) -> Any:
    """The result, or the error as a value, to be raised in the trainer."""
    try:
        return function(argument)
    except FlashSACError as error:
        return error
    except BaseException as error:  # sys.exit too
        return BadSimulation(
            f"{multiprocessing.current_process().name} failed: {type(error).__name__}: {error}\n\n{traceback.format_exc()}\n"
            "The traceback is from the environment's own process. Correct the environment, or report this with the traceback."
        )


class _Worker:
    """One environment and its row."""

    def __init__(self) -> None:
        self._env: SequentialVecEnv | None = None

    def start(self, make: Callable[[], DescribedEnv]) -> EnvSpec:
        env = make()
        self._env = SequentialVecEnv(lambda: env, env.spec)
        return env.spec

    def attach(self, place: tuple[EnvSpec, str, int]) -> None:
        spec, name, index = place
        self._rows, self._row = SharedRows(spec, name), slice(index, index + 1)

    def reset(self, seed: int) -> None:
        self._write("obs", self.env.reset(seed))

    def step(self, _: None) -> dict[str, Any]:
        step = self.env.step(torch.from_numpy(self._rows["action"][self._row]))
        for key in ("reward", "terminated", "truncated", "valid"):
            self._rows[key][self._row] = getattr(step, key).numpy()
        self._write("obs", step.obs)
        self._write("final_obs", step.final_obs)
        return step.info

    def render(self, _: None) -> np.ndarray:
        return self.env.render()

    def state_dict(self, _: None) -> dict[str, Any]:
        return self.env.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        return self.env.load_state_dict(state)

    def _write(self, kind: str, obs: Obs) -> None:
        for group, rows in obs.items():
            self._rows[f"{kind}/{group}"][self._row] = rows.numpy()

    @property
    def env(self) -> SequentialVecEnv:
        assert self._env is not None, "start() comes first"
        return self._env

    def close(self) -> None:
        if self._env is not None:
            self._env.close()
