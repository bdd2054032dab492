"""metrics.csv has the columns that were declared, and no metric goes missing in silence."""

from __future__ import annotations

import os

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from flashsac.errors import FlashSACError
from flashsac.runs.metrics import MetricsLog, read_metrics
from tests.helpers import full_disk


def test_an_undeclared_metric_is_an_error(tmp_path):
    log = MetricsLog(tmp_path, columns=["step", "return"])
    log.write({"step": 100})
    with pytest.raises(FlashSACError, match="metric 'q' is not declared: add it to METRICS"):
        log.write({"step": 200, "q": 1.0})
    log.close()
    assert read_metrics(tmp_path / "metrics.csv") == [{"step": 100}]


def test_resuming_keeps_the_declared_columns_up_to_its_step(tmp_path):
    (tmp_path / "metrics.csv").write_text("step,gone,return\n100,7,1.5\n200,7,2.5\n")
    MetricsLog(tmp_path, columns=["step", "return", "q"], resume_step=100).close()
    assert (tmp_path / "metrics.csv").read_text() == "step,return,q\n100,1.5,\n"


def test_rows_that_had_no_room_are_kept_and_written_later_in_order(tmp_path):
    """The write that meets the limit writes half a row first."""
    said: list[str] = []
    log = MetricsLog(tmp_path, columns=["step", "return"], say=said.append)
    log.write({"step": 100, "return": 0.5})
    with full_disk(os.path.getsize(tmp_path / "metrics.csv") + 3):
        for step in (200, 300, 400):
            log.write({"step": step, "return": 0.5})
        assert (tmp_path / "metrics.csv").read_text() == "step,return\n100,0.5\n"
        assert [row["step"] for row in log.unwritten] == [200, 300, 400]
    log.write({"step": 500, "return": 0.5})
    log.close()
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.csv")] == [100, 200, 300, 400, 500]
    assert len(said) == 2, "once when it fails, once when it works again"
    shown = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in shown.Scalars("train/return")] == [100, 200, 300, 400, 500]


def test_tensorboard_comes_back(tmp_path):
    """The disk fills up between metrics.csv and TensorBoard."""
    said: list[str] = []
    log = MetricsLog(tmp_path, columns=["step", "return"], say=said.append)
    log.write({"step": 100, "return": 0.5})
    with full_disk(os.path.getsize(tmp_path / "metrics.csv") + 20):
        log.write({"step": 200, "return": 0.5})
    assert "TensorBoard could not be written" in said[0]
    log.write({"step": 300, "return": 0.5})
    log.close()
    shown = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in shown.Scalars("train/return")] == [100, 200, 300]


def test_rows_that_a_checkpoint_kept_are_written_on_resume(tmp_path):
    (tmp_path / "metrics.csv").write_text("step,return\n100,0.5\n200,0.5\n")
    kept = [{"step": 200, "return": 9.0}, {"step": 300, "return": 0.25}]
    MetricsLog(tmp_path, columns=["step", "return"], resume_step=300, unwritten=kept).close()
    assert (tmp_path / "metrics.csv").read_text() == "step,return\n100,0.5\n200,0.5\n300,0.25\n"


def test_a_deleted_file_begins_anew_with_its_header(tmp_path):
    log = MetricsLog(tmp_path, columns=["step", "return"])
    log.write({"step": 100})
    (tmp_path / "metrics.csv").unlink()
    log.write({"step": 200})
    log.close()
    assert read_metrics(tmp_path / "metrics.csv") == [{"step": 200}]
