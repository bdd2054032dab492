"""Runs and policies that version 0.1.0 wrote still load.

tests/data/run-0.1 is a run of 600 steps that was stopped at step 432; run-0.1-finished.csv has the metrics of the same run without a
stop. tests/data/policies-0.1 holds a policy with history and one with images. actions.json has observations and the actions of 0.1.0.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import flashsac
from flashsac.runs.metrics import TIMINGS, read_metrics
from flashsac.runs.provenance import processor, version
from tests.helpers import ROOT, cli

pytestmark = pytest.mark.slow

DATA = ROOT / "tests" / "data"
LATER = {"eval_return_std", "eval_void", "reward_outliers"}
"""Columns that version 0.1 did not have."""
RUN, POLICIES = DATA / "run-0.1", DATA / "policies-0.1"


@pytest.fixture
def run(tmp_path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "run"))


@pytest.mark.parametrize("name", ["run", "history", "pixels"])
def test_a_policy_gives_the_same_actions(name):
    recorded = json.loads((POLICIES / "actions.json").read_text())[name]
    policy = flashsac.load_policy(RUN if name == "run" else POLICIES / f"{name}.safetensors")
    obs = {
        group: np.array(rows, "uint8" if group == "pixels" else "float32") for group, rows in recorded["obs"].items()
    }
    np.testing.assert_allclose(policy(obs), recorded["actions"], atol=1e-5)


def test_the_command_line_evaluates_it(run):
    printed = cli("eval", str(run), "--episodes", "3").stdout
    assert f"policy: {run / 'checkpoints' / 'best.safetensors'}" in printed
    assert "gym:Pendulum-v1: return -1806" in printed


def test_resume_ends_where_the_run_without_a_stop_ended(run):
    assert flashsac.resume(run, quiet=True).step == 600
    found, expected = read_metrics(run / "metrics.csv"), read_metrics(DATA / "run-0.1-finished.csv")
    made_on = json.loads((run / "config.json").read_text())
    same_sums = (made_on["machine"]["processor"], made_on["versions"]["torch"]) == (processor(), version("torch"))
    assert len(found) == len(expected) == 12
    for row, wanted in zip(found, expected, strict=True):
        assert wanted.keys() <= row.keys()
        assert row.keys() - wanted.keys() <= LATER
        for metric in wanted.keys() - set(TIMINGS):
            exact = row[metric] == wanted[metric]
            assert exact or (not same_sums and row[metric] == pytest.approx(wanted[metric], rel=0.01)), metric
