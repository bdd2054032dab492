"""What a run and a sweep print is what they were told to print."""

from __future__ import annotations

import pytest

from flashsac.experiments.sweep_view import SweepView
from flashsac.training.progress import Progress


@pytest.mark.parametrize("make", [Progress, SweepView])
@pytest.mark.parametrize("line", ["gym:package:Pendulum-v1", "[bold]reach:warning:make"])
def test_names_between_colons_are_no_emoji_and_brackets_no_markup(make, line, capsys):
    make(1).say(line)
    assert capsys.readouterr().out == f"{line}\n"


def test_an_estimated_end_is_called_one(capsys):
    progress = Progress(0)
    progress.expect(20_000)
    progress.row({"step": 1_000, "eval_return": 5.0, "steps_per_second": 9.0})
    assert capsys.readouterr().out.startswith("step     1,000/about 20,000  evaluated 5")
    exact = Progress(20_000)
    exact.row({"step": 1_000, "eval_return": 5.0, "steps_per_second": 9.0})
    assert capsys.readouterr().out.startswith("step     1,000/20,000  evaluated 5")
