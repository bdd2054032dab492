"""Shared by all tests."""

from __future__ import annotations

import os

os.environ.setdefault("MUJOCO_GL", "egl")

import pytest
import torch

from flashsac.types import EnvSpec


@pytest.fixture(autouse=True)
def _one_thread():
    """Small problems: a second thread only spins."""
    torch.set_num_threads(1)


@pytest.fixture
def make_spec():
    def build(
        num_envs: int = 2, obs: int = 3, action: int = 2, critic: int | None = None, limit: int | None = 100
    ) -> EnvSpec:
        groups = {"actor": obs} | ({"critic": critic} if critic else {})
        return EnvSpec(num_envs, groups, action, (-1.0,) * action, (1.0,) * action, limit)

    return build
