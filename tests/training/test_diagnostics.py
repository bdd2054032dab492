"""Diagnostics of a run: in its metrics and in TensorBoard, at their steps, and without any effect on what it learns."""

from __future__ import annotations

import pytest
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import flashsac
from flashsac.config.schema import TrainConfig, from_dict, to_dict
from flashsac.core.diagnostics import metrics_of
from flashsac.errors import FlashSACError
from flashsac.runs.layout import checkpoint_folders
from flashsac.runs.metrics import TIMINGS, read_metrics
from flashsac.training.hooks import Hooks
from tests import toy_envs
from tests.helpers import StopAt, lose_newest_checkpoint, tiny_run

pytestmark = pytest.mark.slow

ON = dict(every=200, lanczos_iterations=5)


def rows(run) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k not in TIMINGS} for row in read_metrics(run / "metrics.csv")]


def without_diagnostics(run) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if not k.startswith("diag/")} for row in rows(run)]


def newest(run, name: str) -> dict:
    return load_file(checkpoint_folders(run / "checkpoints")[0] / name)


def test_a_run_is_the_same_with_and_without(tmp_path):
    off = tiny_run(tmp_path / "off")
    on = tiny_run(tmp_path / "on", diagnostics=ON)
    assert without_diagnostics(on) == rows(off)
    assert not any(name.startswith("diag/") for name in (off / "metrics.csv").read_text().split("\n")[0].split(","))
    for file in ("state.safetensors", "policy.safetensors"):
        one, other = newest(on, file), newest(off, file)
        assert one.keys() == other.keys()
        assert all(one[name].equal(other[name]) for name in one)

    measured = {row["step"]: row for row in rows(on) if any(name.startswith("diag/") for name in row)}
    assert list(measured) == [200, 400, 600]
    assert all(row.keys() >= metrics_of(blocks=2).keys() for row in measured.values())
    shown = EventAccumulator(str(on / "tensorboard")).Reload()
    events = shown.Scalars("diag/critic_condition")
    assert [event.step for event in events] == [200, 400, 600]
    assert [event.value for event in events] == pytest.approx(
        [row["diag/critic_condition"] for row in measured.values()]
    )
    assert len(shown.Scalars("diag/actor/block2.contract/dormant")) == 3


@pytest.mark.parametrize("stop", [150, 400])
def test_a_resumed_run_measures_the_same(tmp_path, stop):
    alone = tiny_run(tmp_path / "alone", diagnostics=ON)
    run = tiny_run(tmp_path / "run", diagnostics=ON, hooks=[StopAt(stop)])
    assert flashsac.resume(run, quiet=True, env=toy_envs.make_point).step == 600
    assert rows(run) == rows(alone)


def test_rows_after_the_checkpoint_are_measured_again(tmp_path):
    """As if the run had been killed at its end: metrics.csv is ahead of the checkpoint it goes on from."""
    run = tiny_run(tmp_path / "run", diagnostics=ON, checkpoint_every=150)
    before = rows(run)
    lose_newest_checkpoint(run)
    flashsac.resume(run, quiet=True, env=toy_envs.make_point)
    assert rows(run) == before


def test_the_first_row_after_each_multiple_has_them(tmp_path):
    """With rows every 50 steps, multiples of 120 are passed before 150, 250, 400, 500 and 600; learning begins at 100."""
    run = tiny_run(tmp_path / "run", diagnostics=ON | dict(every=120), eval=dict(every=0))
    assert [row["step"] for row in rows(run) if "diag/critic_srank" in row] == [150, 250, 400, 500, 600]


def test_settings_from_before_them_still_load():
    settings = to_dict(TrainConfig())
    del settings["diagnostics"]
    assert from_dict(settings) == TrainConfig()
    assert TrainConfig().diagnostics.every == 0, "off"


class Height(Hooks):
    """A user's hook that adds to every second row."""

    METRICS = {"my/height": "a number of the user's own"}

    def row_metrics(self, trainer):
        return {"my/height": trainer.step / 4} if trainer.step % 100 == 0 else {}


def test_a_hook_adds_its_metrics(tmp_path):
    run = tiny_run(tmp_path / "run", hooks=[Height()], eval=dict(every=0))
    found = {row["step"]: row["my/height"] for row in rows(run) if "my/height" in row}
    assert found == {step: step / 4 for step in range(100, 601, 100)}


def test_a_metric_that_a_hook_did_not_declare_is_an_error(tmp_path):
    class Careless(Height):
        METRICS = {}

    with pytest.raises(FlashSACError, match="metric 'my/height' is not declared"):
        tiny_run(tmp_path / "run", hooks=[Careless()])


@pytest.mark.parametrize("hooks", [[Height(), Height()], [type("Taken", (Hooks,), {"METRICS": {"q": "?"}})()]])
def test_a_metric_that_exists_already_is_an_error(tmp_path, hooks):
    with pytest.raises(FlashSACError, match="which exists already"):
        tiny_run(tmp_path / "run", hooks=hooks)
    assert not (tmp_path / "run" / "config.json").exists()
