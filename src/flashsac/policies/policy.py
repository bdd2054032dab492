"""A trained policy by itself: one small file, loaded without executing anything from it, called with plain arrays."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from flashsac.config.schema import AgentConfig, EnvConfig
from flashsac.core.encoders.build import Encoder, make_encoder
from flashsac.core.networks import Actor
from flashsac.errors import CheckpointError
from flashsac.runs.checkpoint import save_tensors, step_of
from flashsac.sims.base import ActionScaler
from flashsac.sims.catalog import find_task, is_gymnasium_id
from flashsac.types import EnvSpec, Obs, Pixels

FORMAT = "1"
_MEANING = {
    "actor": "all numbers of the observation in one vector, those of a dict in the order of its sorted keys",
    "history": "the vectors before the newest one, one after the other, the oldest first",
    "pixels": "uint8, channels before rows and columns, the newest frames one after the other along the channels, the oldest first",
}


class Policy:
    """Deterministic: `policy(obs)` is the action in the simulator's own bounds, for one observation or a batch.

    `obs` is an array where there is one group of observations, else a dict: "actor" (numbers), "history" (the numbers before them, the
    oldest first), "pixels" (uint8, frames one after the other along the channels, the oldest first).
    """

    def __init__(self, actor: Actor, encoder: Encoder, meta: dict[str, Any]):
        self.actor, self.encoder, self.meta = actor, encoder, meta
        self.task: str = meta["task"]
        self.shapes = _shapes(meta)
        self._scale = ActionScaler(tuple(meta["action_low"]), tuple(meta["action_high"]))

    def __repr__(self) -> str:
        takes = " and ".join(f"{_shape_text(shape)} ({group})" for group, shape in self.shapes.items())
        return f"<flashsac.Policy for {self.task}: takes {takes}, gives {len(self.meta['action_low'])} actions>"

    def __call__(self, obs: np.ndarray | dict[str, np.ndarray]) -> np.ndarray:
        given = obs if isinstance(obs, dict) else {next(iter(self.shapes)): obs}
        batch, alone = {}, False
        for group, shape in self.shapes.items():
            if group not in given:
                raise ValueError(
                    f"this policy for {self.task} takes a dict with the keys {' and '.join(self.shapes)}, but {group} is missing: "
                    f"{_MEANING[group]}"
                )
            rows = np.asarray(given[group], None if group == "pixels" else np.float32)
            if group == "pixels" and rows.dtype != np.uint8:
                raise ValueError(f"this policy for {self.task} takes images of uint8, 0 to 255, not {rows.dtype}")
            alone = rows.ndim == len(shape)
            if rows.shape[-len(shape) :] != shape or rows.ndim > len(shape) + 1:
                raise ValueError(
                    f"this policy for {self.task} takes observations '{group}' of {_shape_text(shape)}, not "
                    f"{_shape_text(rows.shape)}: {_MEANING[group]}"
                )
            if not np.isfinite(rows).all():
                raise ValueError(f"the observation '{group}' holds NaN or Inf: there is no action for it")
            batch[group] = torch.from_numpy(rows[None] if alone else rows)
        action = self._scale(self.act(batch).numpy())
        return action[0] if alone else action

    def named_task(self) -> str:
        """The task that the file's header names, if we know it: a file from elsewhere must not choose what is imported."""
        if find_task(self.task) or (is_gymnasium_id(self.task) and self.task.count(":") == 1):
            return self.task
        raise CheckpointError(
            f"this policy was trained on {self.task}, an environment of somebody's own, and a policy file alone does not decide which "
            "code is run. Name the task with --task module:function (from Python: hand over the environment, env=...)."
        )

    def save(self, path: str | Path) -> None:
        """Write it to a file of its own, which `load_policy` reads."""
        save_tensors(self.weights(), Path(path), {"flashsac_policy": json.dumps(self.meta)})

    def weights(self) -> dict[str, Tensor]:
        """What `policy_from` takes, on the CPU."""
        both = self.actor.state_dict() | {f"encoder.{name}": x for name, x in self.encoder.state_dict().items()}
        return {name: value.detach().cpu().contiguous() for name, value in both.items()}

    def to(self, device: torch.device | str | None) -> Policy:
        """Moves it, and returns it."""
        self.actor.to(device)
        self.encoder.to(device)
        return self

    def check_fits(self, spec: EnvSpec) -> None:
        """Raises unless it was trained on such observations and actions."""
        shapes = {group: shape for group, (shape, _) in spec.groups.items() if group != "critic"}
        sees, saw = (
            " and ".join(f"{_shape_text(shape)} ({group})" for group, shape in some.items())
            for some in (shapes, self.shapes)
        )
        actions = len(self.meta["action_low"])
        if shapes != self.shapes or spec.action_dim != actions:
            raise CheckpointError(
                f"this policy for {self.task} takes {saw} and gives {actions} actions, but the environment now shows {sees} and takes "
                f"{spec.action_dim}. The simulator's version has changed since training, or an --env setting."
            )
        for name, now in (("action_low", spec.action_low), ("action_high", spec.action_high)):
            bound, same = name.removeprefix("action_"), np.isclose(self.meta[name], now, rtol=1e-4, atol=1e-6)
            if not (same | ~np.isfinite(self.meta[name]) | ~np.isfinite(now)).all():
                raise CheckpointError(
                    f"this policy for {self.task} was trained where the {bound}est actions are {list(self.meta[name])}, but the "
                    f"environment now has {list(now)}: its actions would mean something else there. Use the version or the settings "
                    "it was trained with."
                )

    def env_config(self) -> EnvConfig:
        """One environment that shows what this policy wants to see."""
        blind, history = self.meta.get("blind", False), self.meta.get("history", 0)
        options = tuple(self.meta.get("options", ()))
        config = EnvConfig(num_envs=1, overlap=False, history=history, blind=blind, options=options)
        if "pixels" not in self.meta:
            return config
        seen, with_state = self.meta["pixels"], bool(self.obs_dim)
        return dataclasses.replace(config, image_size=seen["height"], frame_stack=seen["stack"], with_state=with_state)

    @property
    def obs_dim(self) -> int:
        """Numbers in an observation; 0 where images are all it sees."""
        return self.meta["obs_dim"]

    @torch.no_grad()
    def act(self, obs: Obs) -> Tensor:
        """Actions in [-1, 1], as VecEnv.step takes them, where the observations are."""
        here = self.actor.mean.weight.device
        there = next(iter(obs.values())).device
        features = self.encoder.actor_features({group: obs[group].to(here) for group in self.shapes})
        return torch.tanh(self.actor(features, False)[0]).to(there)


def make_policy(
    actor: Actor,
    encoder: Encoder,
    task: str,
    spec: EnvSpec,
    config: AgentConfig,
    *,
    blind: bool = False,
    options: Sequence[str] = (),
) -> Policy:
    """The weights plus what is needed to rebuild the networks around them, and the environment; `blind`, `options` as in EnvConfig."""
    meta = {
        "format": FORMAT,
        "task": task,
        "obs_dim": spec.obs.get("actor", 0),
        "action_low": spec.action_low,
        "action_high": spec.action_high,
        "network": _network(config),
    }
    if blind:
        meta["blind"] = True
    if options:
        meta["options"] = list(options)
    if spec.history:
        meta["history"] = spec.history
        meta["encoder"] = {"context_latent": config.context_latent}
    if spec.pixels:
        meta["pixels"] = dataclasses.asdict(spec.pixels)
        meta["encoder"] = {"image_channels": config.image_channels, "image_features": config.image_features}
    return Policy(actor, encoder, meta)


def _shapes(meta: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Of the observations a policy takes."""
    shapes: dict[str, tuple[int, ...]] = {"actor": (meta["obs_dim"],)} if meta["obs_dim"] else {}
    shapes |= {"history": (meta["history"] * meta["obs_dim"],)} if "history" in meta else {}
    return shapes | ({"pixels": Pixels(**meta["pixels"]).shape} if "pixels" in meta else {})


def _shape_text(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} numbers" if len(shape) == 1 else " x ".join(map(str, shape))


def _network(config: AgentConfig) -> dict[str, Any]:
    names = ("blocks", "residual", "batch_norm", "rms_norm")
    return {"width": config.actor_width} | {
        name: value for name, value in dataclasses.asdict(config).items() if name in names
    }


def load_policy(path: str | Path, checkpoint: str | int | None = None) -> Policy:
    """From a policy file, or from a run directory: "best", "last" or a step; by default the best, else the newest."""
    file = find_policy(Path(path), checkpoint)
    try:
        with safe_open(file, "pt") as opened:
            meta = json.loads((opened.metadata() or {}).get("flashsac_policy", "null"))
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, ValueError, OSError) as error:
        todo = "Use another checkpoint of the run."
        if file.suffix == ".onnx":
            todo = "An exported policy runs with `flashsac deploy`; for all else name its run."
        if file.suffix == ".pt":
            todo = f"If mjlab's train command wrote it, take the run beside it: {file.parent / 'flashsac'}."
        raise CheckpointError(f"{file} is corrupt or no policy file ({error}). {todo}") from error
    if not meta or meta.get("format") != FORMAT:
        raise CheckpointError(
            f"{file} is not a flashsac policy of format {FORMAT}. Load files written by `flashsac train`."
        )
    return policy_from(meta, tensors, source=file)


def policy_from(meta: dict[str, Any], tensors: dict[str, Tensor], source: str | Path) -> Policy:
    """The network that `meta` describes, with these weights."""
    try:
        with torch.device("meta"):  # without memory, until it is known that the weights are as many as the header says
            policy = Policy(*_networks(meta), meta)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise CheckpointError(
            f"{source} has a header that this version does not understand ({type(error).__name__}: {error}). It is damaged, or "
            "another version of flashsac wrote it."
        ) from error
    both = torch.nn.ModuleDict({"encoder": policy.encoder, "actor": policy.actor})
    # Copies: those that come from a file are the file itself, as long as it stays as it is.
    weights = {
        name if name.startswith("encoder.") else f"actor.{name}": x.float().clone() for name, x in tensors.items()
    }
    try:
        both.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise CheckpointError(f"{source} does not hold the weights its header describes ({error}).") from error
    return policy


def _networks(meta: dict[str, Any]) -> tuple[Actor, Encoder]:
    numbers = {"actor": meta["obs_dim"]} if meta["obs_dim"] else {}
    low, high = tuple(meta["action_low"]), tuple(meta["action_high"])
    pixels = Pixels(**meta["pixels"]) if "pixels" in meta else None
    spec = EnvSpec(1, numbers, len(low), low, high, None, pixels=pixels, history=meta.get("history", 0))
    encoder = make_encoder(spec, AgentConfig(**meta.get("encoder", {})), torch.float32)
    return Actor(encoder.widths[0], spec.action_dim, **meta["network"]), encoder


def find_policy(path: Path, checkpoint: str | int | None = None) -> Path:
    """The file: of a run directory, of its folder of checkpoints, of one checkpoint, or `path` itself."""
    if not path.exists():
        raise CheckpointError(f"{path} does not exist. Name a run directory or a policy file.")
    file = path if path.is_file() else path / "policy.safetensors"
    if file.exists():
        if checkpoint is not None:
            raise CheckpointError(f"{path} is one policy already; --checkpoint chooses among those of a run directory.")
        return file
    folder = path if path.name == "checkpoints" else path / "checkpoints"
    # Policies alone are there where a whole checkpoint had no room.
    by_step = {step_of(file): file for file in folder.glob("policy-*.safetensors")}
    by_step |= {step_of(file.parent): file for file in sorted(folder.glob("step-*/policy.safetensors"), reverse=True)}
    steps = {str(step): [by_step[step]] for step in sorted(by_step, reverse=True)}
    newest = [file for (file,) in steps.values()]
    best = [file for file in (folder / "best.safetensors",) if file.exists()]
    if not best + newest:
        raise CheckpointError(
            f"there is no policy in {path}: it is no run directory, or its run has saved no checkpoint yet."
        )
    wanted = str(checkpoint).removeprefix("step-").lstrip("0") if checkpoint is not None else None
    found = best + newest if wanted is None else ({"best": best, "last": newest} | steps).get(wanted, [])
    if not found:
        raise CheckpointError(
            f"there is no checkpoint '{checkpoint}' in {path}; there are {', '.join((['best'] if best else []) + ['last', *steps])}."
        )
    return found[0]
