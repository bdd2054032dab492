"""metrics.csv has the columns that were declared, and no metric goes missing in silence."""

from __future__ import annotations

import os

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from flashsac.errors import FlashSACError
from flashsac.experiments.curves import read_curve
from flashsac.runs.metrics import MetricsLog, read_metrics
from tests.helpers import full_disk


def test_an_undeclared_metric_is_an_error(tmp_path):
    log = MetricsLog(tmp_path, columns=["step", "return"])
    log.write({"step": 100})
    with pytest.raises(FlashSACError, match="metric 'q' is not declared: add it to METRICS"):
        log.write({"step": 200, "q": 1.0})
    log.close()
    assert read_metrics(tmp_path / "metrics.csv") == [{"step": 100}]


def test_resuming_keeps_every_column_up_to_its_step(tmp_path):
    """What a hook measured stays, also where the run goes on without the hook."""
    (tmp_path / "metrics.csv").write_text("step,my/height,return\n100,7,1.5\n200,8,2.5\n")
    log = MetricsLog(tmp_path, columns=["step", "return", "q"], resume_step=100)
    log.write({"step": 200, "return": 3.5, "q": 1.0})
    log.close()
    assert (tmp_path / "metrics.csv").read_text() == "step,return,q,my/height\n100,1.5,,7\n200,3.5,1,\n"


def test_another_hooks_metric_does_not_get_the_values_of_the_one_before(tmp_path):
    (tmp_path / "metrics.csv").write_text("step,my/height\n100,7\n")
    MetricsLog(tmp_path, columns=["step", "my/speed"], resume_step=100).close()
    assert read_metrics(tmp_path / "metrics.csv") == [{"step": 100, "my/height": 7.0}]


WHOLE = b"step,seconds,return\n100,1,1.5\n200,2,2.5\n300,3,3.5\n"
STEPS = [100, 200, 300]


@pytest.mark.parametrize(
    ("damaged", "steps", "aside"),
    [
        (WHOLE, STEPS, b""),
        (WHOLE.replace(b"2.5", b"\xff.5"), [100, 300], b"200,2,\xff.5\n"),
        (WHOLE.replace(b"2.5", b"\0.5"), [100, 300], b"200,2,\0.5\n"),
        (WHOLE.replace(b"2.5", b'"2.5'), STEPS, b""),
        (WHOLE.replace(b"200,", b"200;"), [100, 300], b"200;2,2.5\n"),
        (WHOLE.replace(b"200,", b"nan,"), [100, 300], b"nan,2,2.5\n"),
        (WHOLE.replace(b"200,", b","), [100, 300], b",2,2.5\n"),
        (WHOLE.replace(b"2.5", b"2.5,9,9"), [100, 300], b"200,2,2.5,9,9\n"),
        (WHOLE.replace(b"2.5", b"1" * 200_000), [100, 300], b"200,2," + b"1" * 200_000 + b"\n"),
        (WHOLE.replace(b"step", b"stup"), STEPS, b"stup,seconds,return\n"),
        (WHOLE.replace(b"return", b"resurn"), STEPS, b"step,seconds,resurn\n"),
        (WHOLE.replace(b"return", b"ret\xffrn"), STEPS, b"step,seconds,ret\xffrn\n"),
        (WHOLE.replace(b"return", b"seconds"), STEPS, b"step,seconds,seconds\n"),
        (WHOLE.replace(b"seconds,", b"seconds;"), STEPS, b"step,seconds;return\n"),
        (WHOLE.partition(b"\n")[2], STEPS, b""),
        (b"\xef\xbb\xbf" + WHOLE.replace(b"\n", b"\r\n"), STEPS, b""),
        (WHOLE[:-5], [100, 200], b""),
        (WHOLE.decode().encode("utf-16"), [], None),
        (b"\0" * 5000, [], b""),  # never finished
        (b"", [], b""),
    ],
)
def test_damaged_lines_are_set_aside_and_the_others_kept(tmp_path, damaged, steps, aside):
    (tmp_path / "metrics.csv").write_bytes(damaged)
    said: list[str] = []
    log = MetricsLog(tmp_path, columns=["step", "seconds", "return"], resume_step=300, say=said.append)
    log.write({"step": 400})
    log.close()
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.csv")] == [*steps, 400]
    kept = tmp_path / "metrics-damaged.csv"
    if aside == b"":
        assert not kept.exists()
        assert not said
    else:
        assert aside is None or kept.read_bytes() == aside
        assert "damaged lines of metrics.csv were moved to metrics-damaged.csv" in said[0]


def test_a_report_reads_around_damage(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text('{"task": "gym:Pendulum-v1", "config": {"seed": 0}}')
    (run / "metrics.csv").write_bytes(b"step,seconds,eval_return\n100,1,5\n200,\xff,6\n300,,7\n400,4,8\n")
    curve = read_curve(run)
    assert curve is not None
    assert curve.step.tolist() == [100, 400]


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
