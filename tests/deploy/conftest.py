"""One policy for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flashsac.deploy import export
from tests.helpers import tiny_run


@pytest.fixture(scope="session")
def g1_run(tmp_path_factory) -> Path:
    """Trained for a moment, so that BatchNorm's statistics are no longer those of an untrained network."""
    torch.set_num_threads(1)  # before the fixture that does so for tests: two would spin
    return tiny_run(
        tmp_path_factory.mktemp("runs") / "g1", "playground:G1JoystickFlatTerrain", steps=400, eval=dict(every=0)
    )


@pytest.fixture(scope="session")
def g1_file(g1_run) -> Path:
    torch.set_num_threads(1)
    assert export.main([str(g1_run), "--observations", "64"]) == 0
    return g1_run / "policy.onnx"
