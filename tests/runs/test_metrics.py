"""metrics.csv has the columns that were declared, and no metric goes missing in silence."""

from __future__ import annotations

import pytest

from flashsac.errors import FlashSACError
from flashsac.runs.metrics import MetricsLog, read_metrics


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
