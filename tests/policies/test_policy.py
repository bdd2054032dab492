"""A policy file holds the whole network configuration, and a snapshot is a copy."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from flashsac.config.schema import AgentConfig, EnvConfig, TrainConfig
from flashsac.core.update import Learner
from flashsac.errors import CheckpointError
from flashsac.policies.policy import Policy, read_policy, snapshot
from flashsac.types import EnvSpec, Pixels
from tests.helpers import ROOT

LOW, HIGH = (-1.0, -2.0), (1.0, 2.0)
SMALL = AgentConfig(actor_width=8, critic_width=8, image_channels=2, image_features=4, context_latent=3)
NUMBERS = EnvSpec(1, {"actor": 3}, 2, LOW, HIGH, None)
HISTORY = EnvSpec(1, {"actor": 4, "critic": 6}, 2, LOW, HIGH, None, history=3, velocity=(0, 3))
IMAGES = EnvSpec(1, {}, 2, LOW, HIGH, None, pixels=Pixels(3, 16, 16, 2))


def learner_and_policy(spec: EnvSpec, config: AgentConfig) -> tuple[Learner, Policy]:
    torch.manual_seed(0)
    learner = Learner(spec, config, torch.device("cpu"))
    settings = TrainConfig(agent=config, env=EnvConfig(blind=True, options=("a=1",)))
    return learner, snapshot(learner.actor, learner.encoder, "custom:toy", spec, settings)


def observations(policy: Policy) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        group: rng.integers(256, size=(4, *shape), dtype=np.uint8)
        if group == "pixels"
        else rng.normal(size=(4, *shape))
        for group, shape in policy.shapes.items()
    }


@pytest.mark.parametrize(
    ("spec", "changes"),
    [(NUMBERS, dict(residual=False)), (HISTORY, dict(batch_norm=False)), (IMAGES, dict(rms_norm=False, blocks=1))],
)
def test_a_file_gives_back_the_same_network(tmp_path, spec, changes):
    config = dataclasses.replace(SMALL, **changes)
    _, policy = learner_and_policy(spec, config)
    policy.save(tmp_path / "policy.safetensors")
    loaded = read_policy(tmp_path / "policy.safetensors")
    assert loaded.meta["agent"] == dataclasses.asdict(config)
    assert (loaded.env_config().blind, loaded.env_config().options) == (True, ("a=1",))
    assert np.array_equal(loaded(observations(policy)), policy(observations(policy)))


def test_settings_that_a_header_does_not_name_have_their_defaults(tmp_path):
    _, policy = learner_and_policy(NUMBERS, SMALL)
    for name in ("blocks", "atoms", "noise_exponent"):
        del policy.meta["agent"][name]
    policy.save(tmp_path / "policy.safetensors")
    assert np.array_equal(read_policy(tmp_path / "policy.safetensors")(np.ones(3)), policy(np.ones(3)))


def test_a_snapshot_does_not_follow_the_networks():
    learner, policy = learner_and_policy(NUMBERS, SMALL)
    before = policy(np.ones(3))
    with torch.no_grad():
        for parameter in learner.actor.parameters():
            parameter.add_(1.0)
    assert np.array_equal(policy(np.ones(3)), before)


def test_a_policy_gives_the_same_file_each_time(tmp_path):
    _, policy = learner_and_policy(NUMBERS, SMALL)
    files = [tmp_path / f"{i}.safetensors" for i in range(8)]
    for file in files:
        policy.save(file)
    assert len({file.read_bytes() for file in files}) == 1


def test_every_damaged_byte_of_a_file_is_noticed(tmp_path):
    _, policy = learner_and_policy(NUMBERS, dataclasses.replace(SMALL, actor_width=2, blocks=1))
    file = tmp_path / "policy.safetensors"
    policy.save(file)
    content, unnoticed = file.read_bytes(), []
    random = np.random.default_rng(0)
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << random.integers(8)
        file.write_bytes(bytes(damaged))
        try:
            read_policy(file)
        except CheckpointError:
            continue
        unnoticed.append(place)
    assert not unnoticed
    for end in range(0, len(content), 97):
        file.write_bytes(content[:end])
        with pytest.raises(CheckpointError):
            read_policy(file)


def test_an_earlier_policy_in_a_checkpoint_is_compared_with_its_manifest(tmp_path):
    """Policies of version 0.1.0 have no checksum of their own."""
    folder = (
        Path(shutil.copytree(ROOT / "tests" / "data" / "run-0.1", tmp_path / "run"))
        / "checkpoints"
        / "step-000000000432"
    )
    file = folder / "policy.safetensors"
    assert read_policy(file).task == "gym:Pendulum-v1"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match="checksum is wrong"):
        read_policy(file)


@pytest.mark.parametrize(
    "header",
    [b"", b"\xff" * 8, (10**9).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"[]"]
    + [
        len(deep).to_bytes(8, "little") + deep
        for deep in [b'{"__metadata__":' + b"[" * 100_000 + b"]" * 100_000 + b"}"]
    ],
)
def test_headers_that_are_none_are_refused(tmp_path, header):
    (tmp_path / "policy.safetensors").write_bytes(header)
    with pytest.raises(CheckpointError, match="corrupt or no policy"):
        read_policy(tmp_path / "policy.safetensors")
