"""Where the replay lives, and what is said before it is too late."""

from __future__ import annotations

import dataclasses
import shutil
import types
from typing import Any

import pytest
import torch

from flashsac.config.schema import ReplayConfig
from flashsac.training.replay_storage import make_replay


@pytest.fixture
def options(tmp_path) -> dict[str, Any]:
    device = torch.device("cpu")
    return dict(steps=2000, discount=0.99, n_step=1, run_dir=tmp_path, device=device)


def test_main_memory_is_main_memory_also_beside_a_simulator_on_a_gpu(make_spec, options):
    spec = dataclasses.replace(make_spec(), device=torch.device("meta"))  # stands for a GPU
    devices = {}
    for storage in ("ram", "auto"):
        replay = make_replay(spec, ReplayConfig(capacity=2000, storage=storage), say=print, **options)
        devices[storage] = replay.reward.device.type
    assert devices == {"ram": "cpu", "auto": "meta"}


def test_a_disk_too_small_for_the_checkpoints_of_a_replay_in_memory_is_named(make_spec, options, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=30_000))
    make_replay(make_spec(), ReplayConfig(capacity=2000), say=said.append, **options)
    assert "warning: its checkpoints take as much again on disk, where only 30 KB are free" in said[0]
    monkeypatch.undo()
    make_replay(make_spec(), ReplayConfig(capacity=2000), say=said.append, **options)
    assert "warning" not in said[1]
