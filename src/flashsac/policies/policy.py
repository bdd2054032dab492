"""A trained policy by itself: one small file, loaded without executing anything from it, called with plain arrays."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from flashsac.config.checks import coerce
from flashsac.config.schema import AgentConfig, EnvConfig, TrainConfig
from flashsac.core.encoders.build import Encoder, make_encoder
from flashsac.core.networks import Actor, make_actor
from flashsac.errors import CheckpointError, Diverged, FlashSACError
from flashsac.policies.policy_file import read_policy_file, write_policy_file
from flashsac.runs.provenance import version
from flashsac.runs.seal import MALFORMED
from flashsac.sims.base import ActionScaler
from flashsac.sims.catalog import find_task, is_gymnasium_id
from flashsac.system.limits import check_limits
from flashsac.types import EnvSpec, Obs, Pixels

FORMAT = "1"
MOST_NUMBERS = 1_000_000
"""Largest observation, history, image side or action that a header may name."""
_MEANING = {
    "actor": "all numbers of the observation in one vector, those of a dict in the order of its sorted keys",
    "history": "the vectors before the newest one, one after the other, the oldest first",
    "pixels": "uint8, channels before rows and columns, the newest frames one after the other along the channels, the oldest first",
}


class Acting(Protocol):
    """Anything that chooses actions in [-1, 1]: a policy, or what another algorithm has trained."""

    def act(self, obs: Obs) -> Tensor: ...


class Policy:
    """Deterministic: `policy(obs)` is the action in the simulator's own bounds, for one observation or a batch.

    `obs` is an array where there is one group of observations, else a dict. "actor" and "history" (those before it) are
    numbers, "pixels" are uint8, frames one after the other along the channels. The oldest come first.
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
        """The task that the file's header names, if we know it: a file from elsewhere must not choose what is
        imported."""
        if find_task(self.task) or (is_gymnasium_id(self.task) and self.task.count(":") == 1):
            return self.task
        raise CheckpointError(
            f"this policy was trained on {self.task}, an environment of somebody's own, and a policy file alone does not decide which "
            "code is run. Name the task with --task module:function (from Python: hand over the environment, env=...)."
        )

    def save(self, path: str | Path) -> None:
        """Write it to a file of its own, which `load_policy` reads."""
        write_policy_file(Path(path), self.meta, self.weights())

    def weights(self) -> dict[str, Tensor]:
        """What `policy_from` takes, on the CPU."""
        return {name: value.cpu().contiguous() for name, value in _weights(self.actor, self.encoder).items()}

    def require_finite(self) -> None:
        """Raise if the weights hold NaN or Inf: every action could only be NaN."""
        for name, tensor in _weights(self.actor, self.encoder).items():
            if not torch.isfinite(tensor).all():
                raise Diverged(
                    f"this policy for {self.task} holds NaN or Inf in its weights ({name}), so it cannot act. Its training diverged, "
                    "or the file is damaged: take another checkpoint of the run (--checkpoint)."
                )

    def to(self, device: torch.device | str | None) -> Policy:
        """Move the policy to a device, and return it."""
        self.actor.to(device)
        self.encoder.to(device)
        return self

    def check_fits(self, spec: EnvSpec) -> None:
        """Raise unless the policy was trained on such observations and actions."""
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
        return torch.tanh(self._gaussian(obs)[0]).to(next(iter(obs.values())).device)

    @torch.no_grad()
    def sample(self, obs: Obs, generator: torch.Generator) -> Tensor:
        """Random actions of the stochastic policy that was trained, with fresh noise; the rest as in `act`."""
        mean, log_std = self._gaussian(obs)
        noise = torch.randn(mean.shape, generator=generator).to(mean.device)
        return torch.tanh(mean + log_std.exp() * noise).to(next(iter(obs.values())).device)

    def _gaussian(self, obs: Obs) -> tuple[Tensor, Tensor]:
        """Mean and log standard deviation before tanh, each (batch, action_dim), where the policy is."""
        here = self.actor.mean.weight.device
        features = self.encoder.actor_features({group: obs[group].to(here) for group in self.shapes})
        return self.actor(features, False)


def snapshot(actor: Actor, encoder: Encoder, task: str, spec: EnvSpec, config: TrainConfig) -> Policy:
    """Copy networks that are still learning into a policy, in fp32 and on the same device."""
    meta: dict[str, Any] = {
        "format": FORMAT,
        "version": version("flashsac") or "unknown",
        "task": task,
        "obs_dim": spec.obs.get("actor", 0),
        "action_low": spec.action_low,
        "action_high": spec.action_high,
        "agent": dataclasses.asdict(config.agent),
    }
    meta |= {"blind": True} if config.env.blind else {}
    meta |= {"options": list(config.env.options)} if config.env.options else {}
    meta |= {"history": spec.history} if spec.history else {}
    meta |= {"pixels": dataclasses.asdict(spec.pixels)} if spec.pixels else {}
    return policy_from(meta, _weights(actor, encoder), source="the trainer")


def _weights(actor: Actor, encoder: Encoder) -> dict[str, Tensor]:
    """The networks' own tensors, not copies, by the names they have in a policy file."""
    return actor.state_dict() | {f"encoder.{name}": x for name, x in encoder.state_dict().items()}


def _shapes(meta: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the observations that a policy takes, by group."""
    shapes: dict[str, tuple[int, ...]] = {"actor": (meta["obs_dim"],)} if meta["obs_dim"] else {}
    shapes |= {"history": (meta["history"] * meta["obs_dim"],)} if "history" in meta else {}
    return shapes | ({"pixels": Pixels(**meta["pixels"]).shape} if "pixels" in meta else {})


def _shape_text(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} numbers" if len(shape) == 1 else " x ".join(map(str, shape))


def read_policy(file: Path) -> Policy:
    """The policy in a file that `Policy.save` wrote. A file that has changed since is refused."""
    try:
        meta, tensors = read_policy_file(file)
    except (SafetensorError, OSError, *MALFORMED) as error:
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
    policy = policy_from(meta, tensors, source=file)
    policy.require_finite()
    return policy


def policy_from(meta: dict[str, Any], tensors: dict[str, Tensor], source: str | Path) -> Policy:
    """The policy that `meta` describes, with copies of these weights."""
    try:
        with torch.device("meta"):  # without memory, until it is known that the weights are as many as the header says
            policy = Policy(*_networks(meta, source), meta)
    except MALFORMED as error:
        raise CheckpointError(
            f"{source} has a header that this version does not understand ({type(error).__name__}: {error}). It is damaged, or "
            "another version of flashsac wrote it."
        ) from error
    both = torch.nn.ModuleDict({"encoder": policy.encoder, "actor": policy.actor})
    # Copies: tensors of a file are mapped from it, those of a trainer go on learning.
    weights = {
        name if name.startswith("encoder.") else f"actor.{name}": x.to(
            torch.float32, copy=True, memory_format=torch.contiguous_format
        )
        for name, x in tensors.items()
    }
    try:
        both.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise CheckpointError(f"{source} does not hold the weights its header describes ({error}).") from error
    return policy


def _networks(meta: dict[str, Any], source: str | Path) -> tuple[Actor, Encoder]:
    _check_meta(meta)
    numbers = {"actor": meta["obs_dim"]} if meta["obs_dim"] else {}
    low, high = tuple(meta["action_low"]), tuple(meta["action_high"])
    pixels = Pixels(**meta["pixels"]) if "pixels" in meta else None
    spec = EnvSpec(1, numbers, len(low), low, high, None, pixels=pixels, history=meta.get("history", 0))
    config = _agent_config(meta, source)
    encoder = make_encoder(spec, config, torch.float32)
    return make_actor(config, encoder, spec.action_dim, torch.float32), encoder


def _check_meta(meta: dict[str, Any]) -> None:
    """Raise ValueError where the header names sizes that no policy has. Building such a network would take forever."""
    sizes = {"obs_dim": meta["obs_dim"], "history": meta.get("history", 0), **meta.get("pixels", {})}
    for name, value in sizes.items():
        if type(value) is not int or not 0 <= value <= MOST_NUMBERS:
            raise ValueError(f"{name} is {value!r:.60}")
    low, high = meta["action_low"], meta["action_high"]
    if not 1 <= len(low) == len(high) <= MOST_NUMBERS:
        raise ValueError(f"there are {len(low)} lowest and {len(high)} highest actions")
    if not all(isinstance(bound, int | float) for bound in (*low, *high)):
        raise ValueError("the bounds of the actions are no numbers")
    if not isinstance(meta["task"], str):
        raise ValueError("the task is no text")


def _agent_config(meta: dict[str, Any], source: str | Path) -> AgentConfig:
    """The settings of the agent that trained the policy. Settings that the header does not name have their defaults."""
    if "agent" not in meta:  # version 0.1.0 kept only the settings that its networks had
        network = dict(meta["network"])
        config = AgentConfig(actor_width=network.pop("width"), **network, **meta.get("encoder", {}))
    else:
        unknown = meta["agent"].keys() - {field.name for field in dataclasses.fields(AgentConfig)}
        if unknown:
            raise CheckpointError(
                f"{source} names settings that this version of flashsac does not know: {', '.join(sorted(unknown))}. Version "
                f"{meta.get('version')} wrote it: load it with that one, or a newer one."
            )
        config = AgentConfig(**meta["agent"])
    try:
        config = coerce(config, "agent.")
        check_limits(config, "agent.")
    except FlashSACError as error:
        raise CheckpointError(f"{source} has a header with impossible settings: {error} It is damaged.") from None
    return config
