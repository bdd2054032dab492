"""The algorithms of `flashsac baseline`: who implements each, and its hyperparameters."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import os
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from flashsac.errors import FlashSACError, MissingExtra
from flashsac.experiments.baselines.source import Source
from flashsac.system.suggest import did_you_mean
from flashsac.types import Obs

HERE = "flashsac.experiments.baselines"


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """One algorithm of one library."""

    name: str
    module: str
    """Our module that drives the library."""
    kind: str
    """The class in the library."""
    packages: tuple[str, ...]
    """The library's distribution, then those that it computes with."""
    num_envs: int = 1
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Our changes to the defaults of the library."""

    @property
    def takes_device(self) -> bool:
        """False where JAX computes. JAX chooses its device itself, when it is imported."""
        return "jax" not in self.packages


_SB3, _SBX = f"{HERE}.stable_baselines", f"{HERE}.sbx"
_JAX = ("sbx-rl", "stable-baselines3", "jax", "jaxlib", "flax", "optax")
ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("ppo", f"{HERE}.rsl_rl", "PPO", ("rsl-rl-lib",), num_envs=128),
        Algorithm("sac", _SB3, "SAC", ("stable-baselines3",)),
        # The library's default is no noise, but then TD3 does not explore. This is its paper's standard deviation.
        Algorithm("td3", _SB3, "TD3", ("stable-baselines3",), changes={"action_noise": 0.1}),
        Algorithm("crossq", _SBX, "CrossQ", _JAX),
        Algorithm("tqc", _SBX, "TQC", _JAX),
        Algorithm("sbx-sac", _SBX, "SAC", _JAX),
    )
}


class Learner(Protocol):
    """An algorithm at work on a source of transitions."""

    def __init__(self, source: Source, kind: str, hyperparameters: dict[str, Any], seed: int, device: str = "cpu"): ...

    @classmethod
    def defaults(cls, kind: str) -> dict[str, Any]:
        """The hyperparameters that may be changed, and their values."""
        ...

    @property
    def updates(self) -> int:
        """Gradient steps so far."""
        ...

    def advance(self) -> None:
        """Collect transitions and learn from them, once."""
        ...

    def act(self, obs: Obs) -> Tensor:
        """Deterministic actions in [-1, 1], on the device of the observations."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Plain values, arrays and tensors: "networks", and "memory" for what else learning needs."""
        ...

    def load_state_dict(self, state: dict[str, Any], *, networks_only: bool = False) -> None:
        """Go on from there; for acting alone the networks are enough."""
        ...


def find_algorithm(name: str) -> Algorithm:
    """The algorithm of this name."""
    if name not in ALGORITHMS:
        raise FlashSACError(
            f"there is no baseline '{name}'; there are {', '.join(ALGORITHMS)}.{did_you_mean(name, ALGORITHMS)}"
        )
    return ALGORITHMS[name]


def limit_threads(threads: int | None) -> None:
    """Let the networks use so many CPU threads: by default what OMP_NUM_THREADS says, which torch reads by itself.

    JAX reads its settings when it is imported. It computes on the CPU, unless JAX_PLATFORMS says otherwise."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if threads is not None:
        torch.set_num_threads(threads)
    given = str(threads or os.environ.get("OMP_NUM_THREADS", ""))
    if given.isdigit():
        os.environ.setdefault("NPROC", given)  # the size of XLA's pools of threads


def learner_class(algorithm: Algorithm) -> type[Learner]:
    """The class that drives the algorithm; raises MissingExtra if its library is not installed."""
    try:
        return importlib.import_module(algorithm.module).LEARNER
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("flashsac"):
            raise
        raise MissingExtra(
            f'{algorithm.name} needs {error.name}, which is not installed: pip install "flashsac[baselines]"'
        ) from error


def hyperparameters(algorithm: Algorithm, changes: Sequence[str]) -> dict[str, Any]:
    """All hyperparameters, with changes written as name=value."""
    values = learner_class(algorithm).defaults(algorithm.kind) | algorithm.changes
    for text in changes:
        name, equals, value = text.partition("=")
        if name not in values:
            known = (
                f" `{algorithm.name}` has {', '.join(values)}." if not (near := did_you_mean(name, values)) else near
            )
            raise FlashSACError(f"--set {text}: {algorithm.name} has no hyperparameter '{name}'.{known}")
        if not equals:
            raise FlashSACError(f"--set {text}: give it a value, --set {name}=VALUE (now {json.dumps(values[name])}).")
        values[name] = _like(values[name], value, f"--set {text}")
    return values


def _like(default: Any, text: str, given: str) -> Any:
    """The value that `text` stands for. It must be of the default's kind, as far as that has one."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if isinstance(value, float):
        if not math.isfinite(value):
            raise FlashSACError(f"{given}: a finite number is needed.")
        value = int(value) if value.is_integer() and type(default) is int else value  # 1e6
    number = type(value) in (int, float)
    right = {
        bool: type(value) is bool,
        int: type(value) is int,
        float: number,
        str: isinstance(value, str) or number,  # "auto", or the number itself
        list: isinstance(value, list),
        dict: isinstance(value, dict),
    }
    if not right.get(type(default), True):
        raise FlashSACError(f"{given}: write it like its default, {json.dumps(default)}.")
    return value
