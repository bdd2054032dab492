"""FlashSAC: fast, stable off-policy reinforcement learning for robots.

import flashsac
flashsac.train("mujoco:HalfCheetah-v4", preset="laptop", run_dir="runs/cheetah")
policy = flashsac.load_policy("runs/cheetah")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

_HOMES = {
    "train": "flashsac.api",
    "resume": "flashsac.api",
    "evaluate": "flashsac.api",
    "play": "flashsac.api",
    "export": "flashsac.api",
    "configure": "flashsac.sims.defaults",
    "load_policy": "flashsac.policies.find",
    "Policy": "flashsac.policies.policy",
    "Hooks": "flashsac.training.hooks",
    "TrainConfig": "flashsac.config.schema",
    "FlashSACError": "flashsac.errors",
    "make_env": "flashsac.sims.make",
    "check_env": "flashsac.sims.check",
}

if TYPE_CHECKING:
    from flashsac.api import evaluate, export, play, resume, train
    from flashsac.config.schema import TrainConfig
    from flashsac.errors import FlashSACError
    from flashsac.policies.find import load_policy
    from flashsac.policies.policy import Policy
    from flashsac.sims.check import check_env
    from flashsac.sims.defaults import configure
    from flashsac.sims.make import make_env
    from flashsac.training.hooks import Hooks

__all__ = [
    "FlashSACError",
    "Hooks",
    "Policy",
    "TrainConfig",
    "__version__",
    "check_env",
    "configure",
    "evaluate",
    "export",
    "load_policy",
    "make_env",
    "play",
    "resume",
    "train",
]


def __getattr__(name: str) -> Any:
    # Lazy: `import flashsac` must not wait for torch.
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'flashsac' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
