"""A trained policy by itself: one small file, loaded without executing anything from it, called with plain arrays."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from flashsac.checkpoint import save_tensors
from flashsac.config import AgentConfig
from flashsac.core.networks import Policy as Actor
from flashsac.errors import CheckpointError
from flashsac.sims.base import ActionScaler
from flashsac.types import EnvSpec, Obs

FORMAT = "1"


class Policy:
    """Deterministic: `policy(obs)` is the action in the simulator's own bounds, for one observation or a batch."""

    def __init__(self, actor: Actor, meta: dict[str, Any]):
        self.actor, self.meta = actor, meta
        self.task: str = meta["task"]
        self.obs_dim: int = meta["obs_dim"]
        self._scale = ActionScaler(tuple(meta["action_low"]), tuple(meta["action_high"]))

    def __call__(self, obs: np.ndarray | dict[str, np.ndarray]) -> np.ndarray:
        rows = np.asarray(obs["actor"] if isinstance(obs, dict) else obs, np.float32)
        if rows.shape[-1] != self.obs_dim:
            raise ValueError(
                f"this policy for {self.task} takes observations of {self.obs_dim} numbers, not {rows.shape[-1]}"
            )
        batch = torch.from_numpy(np.atleast_2d(rows))
        action = self._scale(self.act({"actor": batch}).numpy())
        return action if rows.ndim > 1 else action[0]

    def save(self, path: str | Path) -> None:
        """Write it to a file of its own, which `load_policy` reads."""
        tensors = {name: value.detach().cpu().contiguous() for name, value in self.actor.state_dict().items()}
        save_tensors(tensors, Path(path), {"flashsac_policy": json.dumps(self.meta)})

    @torch.no_grad()
    def act(self, obs: Obs) -> Tensor:
        """Actions in [-1, 1], as VecEnv.step takes them, where the observations are."""
        rows = obs["actor"].to(self.actor.mean.weight.device)
        return torch.tanh(self.actor(rows, False)[0]).to(obs["actor"].device)


def make_policy(actor: Actor, task: str, spec: EnvSpec, config: AgentConfig) -> Policy:
    """The weights plus what is needed to rebuild the network around them."""
    meta = {
        "format": FORMAT,
        "task": task,
        "obs_dim": spec.obs["actor"],
        "action_low": spec.action_low,
        "action_high": spec.action_high,
        "network": _network(config),
    }
    return Policy(actor, meta)


def _network(config: AgentConfig) -> dict[str, Any]:
    names = ("blocks", "residual", "batch_norm", "rms_norm")
    return {"width": config.actor_width} | {
        name: value for name, value in dataclasses.asdict(config).items() if name in names
    }


def load_policy(path: str | Path) -> Policy:
    """From a policy file, or from a run directory: its best policy, else the newest."""
    file = find_policy(Path(path))
    try:
        with safe_open(file, "pt") as opened:
            meta = json.loads((opened.metadata() or {}).get("flashsac_policy", "null"))
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, ValueError, OSError) as error:
        raise CheckpointError(
            f"{file} is corrupt or no policy file ({error}). Use another checkpoint of the run."
        ) from error
    if not meta or meta.get("format") != FORMAT:
        raise CheckpointError(
            f"{file} is not a flashsac policy of format {FORMAT}. Load files written by `flashsac train`."
        )
    return policy_from(meta, tensors, source=file)


def policy_from(meta: dict[str, Any], tensors: dict[str, Tensor], source: str | Path) -> Policy:
    """The network that `meta` describes, with these weights."""
    actor = Actor(meta["obs_dim"], len(meta["action_low"]), **meta["network"])
    try:
        actor.load_state_dict(tensors)
    except RuntimeError as error:
        raise CheckpointError(f"{source} does not hold the weights its header describes ({error}).") from error
    return Policy(actor, meta)


def find_policy(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.exists():
        raise CheckpointError(f"{path} does not exist. Name a run directory or a policy file.")
    best = path / "checkpoints" / "best.safetensors"
    newest = sorted(path.glob("checkpoints/step-*/policy.safetensors"), reverse=True)
    for candidate in [best, *newest]:
        if candidate.exists():
            return candidate
    raise CheckpointError(
        f"there is no policy in {path}: it is no run directory, or its run has saved no checkpoint yet."
    )
