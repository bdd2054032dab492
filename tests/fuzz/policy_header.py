"""The header of a policy file, with and without its checksum."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save

from flashsac.config.schema import AgentConfig, TrainConfig
from flashsac.core.update import Learner
from flashsac.errors import FlashSACError
from flashsac.policies.policy import Policy, read_policy, snapshot
from flashsac.types import EnvSpec, Pixels


def _policy(spec: EnvSpec) -> Policy:
    config = AgentConfig(actor_width=2, critic_width=2, blocks=1, image_channels=1, image_features=2)
    learner = Learner(spec, config, torch.device("cpu"))
    return snapshot(learner.actor, learner.encoder, "gym:Pendulum-v1", spec, TrainConfig(agent=config))


def _file(meta: bytes, policy: Policy) -> bytes:
    """A policy file without a checksum, as version 0.1.0 wrote it: its header is what is understood next."""
    return save(policy.weights(), {"flashsac_policy": meta.decode(errors="replace")})


NUMBERS = _policy(EnvSpec(1, {"actor": 3}, 2, (-1.0, -2.0), (1.0, 2.0), None))
IMAGES = _policy(EnvSpec(1, {}, 2, (-1.0, -2.0), (1.0, 2.0), None, pixels=Pixels(3, 16, 16, 2)))


def seeds() -> list[bytes]:
    """JSON headers, and a whole file."""
    with tempfile.TemporaryDirectory() as folder:
        NUMBERS.save(Path(folder) / "policy.safetensors")
        whole = (Path(folder) / "policy.safetensors").read_bytes()
    return [json.dumps(NUMBERS.meta).encode(), json.dumps(IMAGES.meta).encode(), whole]


def attack(data: bytes) -> bool:
    """The bytes as a file, and as the header of a file whose weights are right."""
    accepted = False
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.safetensors"
        for content in (data, _file(data, NUMBERS), _file(data, IMAGES)):
            file.write_bytes(content)
            try:
                policy = read_policy(file)
                repr(policy)
                policy.env_config()
                policy.named_task()
                accepted = True
            except FlashSACError:
                pass
    return accepted
