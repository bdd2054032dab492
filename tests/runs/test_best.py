"""Which policy is kept as the best."""

from __future__ import annotations

import errno
import json
import math

import pytest

from flashsac.runs.best import BestPolicy, best_score


@pytest.mark.parametrize(
    ("task", "kept", "content"),
    [
        ("custom:make_point", [10, 20, 50], {"step": 50, "return": 9.0}),
        ("myosuite:myo-reach", [10, 20, 30, 40], {"step": 40, "return": 3.0, "success": 0.5}),
    ],
)
def test_tasks_are_judged_by_their_own_metric(tmp_path, task, kept, content):
    """By return alone, or by success and then by return."""
    best, written = BestPolicy(tmp_path, task), []

    def write(path):
        written.append(step)
        path.write_text(str(step))

    evaluations = {10: (1.0, 0.0), 20: (5.0, 0.0), 30: (2.0, 0.5), 40: (3.0, 0.5), 50: (9.0, 0.25), 60: (math.nan, 0.0)}
    for step, (value, success) in evaluations.items():
        best.offer(step, {"eval_return": value, "eval_success": success}, write)
        best.write()
    assert written == kept
    assert (tmp_path / "checkpoints" / "best.safetensors").read_text() == str(kept[-1])
    assert json.loads((tmp_path / "checkpoints" / "best.json").read_text()) == content
    assert best_score(tmp_path) == best.score


def test_a_resumed_run_goes_on_from_the_better_of_checkpoint_and_disk(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    best = BestPolicy(tmp_path, "custom:make_point")
    best.restore(-5.0)  # of a checkpoint that holds the return alone
    assert best.score == (0.0, -5.0)
    (tmp_path / "checkpoints" / "best.json").write_text('{"step": 3, "return": -2.0}')
    best.restore([0.0, -5.0])
    assert best.score == (0.0, -2.0)


def test_a_policy_that_could_not_be_written_is_kept_and_tried_again(tmp_path):
    """Neither lost nor replaced by a worse one; and a checkpoint made meanwhile knows what lies on the disk."""
    best = BestPolicy(tmp_path, "custom:make_point")
    best.offer(10, {"eval_return": 1.0}, lambda path: path.write_text("10"))
    best.write()

    def full(path):
        path.write_text("ha")
        raise OSError(errno.ENOSPC, "full")

    tries = iter([full, lambda path: path.write_text("20")])
    best.offer(20, {"eval_return": 5.0}, lambda path: next(tries)(path))
    with pytest.raises(OSError, match="full"):
        best.write()
    assert (tmp_path / "checkpoints" / "best.safetensors").read_text() == "10"
    assert best_score(tmp_path) == best.written == (0.0, 1.0)
    best.offer(30, {"eval_return": 2.0}, lambda path: pytest.fail("a worse one"))
    best.write()
    assert (tmp_path / "checkpoints" / "best.safetensors").read_text() == "20"
    assert best_score(tmp_path) == best.written == best.score == (0.0, 5.0)
