"""Shared by the tests of run directories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers import tiny_run


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Path:
    """A finished run with two checkpoints; not to be changed."""
    return tiny_run(tmp_path_factory.mktemp("runs") / "run", steps=200, checkpoint_every=100, eval=dict(every=0))


@pytest.fixture
def run(trained, tmp_path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "run"))
