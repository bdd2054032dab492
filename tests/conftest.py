"""Shared by all tests."""

from __future__ import annotations

import os
import signal

os.environ.setdefault("MUJOCO_GL", "egl")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets its background jobs ignore Ctrl-C, and so would every process that a test starts and interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

from pathlib import Path

import pytest
import torch

from flashsac.types import EnvSpec
from tests.browser import browser as browser
from tests.browser import open_page as open_page


def pytest_collection_modifyitems(items):
    """Whoever needs a trained policy waits for it to be trained."""
    for item in items:
        if "g1_run" in item.fixturenames:
            item.add_marker(pytest.mark.slow)


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


@pytest.fixture(scope="session")
def g1_run(tmp_path_factory) -> Path:
    """Trained for a moment, so that BatchNorm's statistics are no longer those of an untrained network."""
    torch.set_num_threads(1)  # before the fixture that does so for tests: two would spin
    from tests.helpers import tiny_run

    return tiny_run(
        tmp_path_factory.mktemp("runs") / "g1", "playground:G1JoystickFlatTerrain", steps=400, eval=dict(every=0)
    )


@pytest.fixture(scope="session")
def g1_file(g1_run) -> Path:
    from flashsac.cli import export

    torch.set_num_threads(1)
    assert export.main([str(g1_run), "--observations", "64"]) == 0
    return g1_run / "policy.onnx"
