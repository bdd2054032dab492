"""Which dropped transitions speak against the simulator, and how many are too many."""

from __future__ import annotations

import pytest
import torch

from flashsac.training.health import SimulatorWatch
from flashsac.types import Step

NAN = float("nan")


def step(*, truncated: bool, reward: float = 1.0, final: float = 0.0) -> Step:
    """Of one environment, whose transition is dropped."""
    obs, final_obs = {"actor": torch.zeros(1, 2)}, {"actor": torch.full((1, 2), final)}
    cut, no = torch.tensor([truncated]), torch.zeros(1, dtype=torch.bool)
    return Step(obs, torch.tensor([reward]), no, cut, final_obs, no, {})


@pytest.mark.parametrize(
    "broken",
    [
        step(truncated=True, reward=NAN),
        step(truncated=True, reward=1e16),
        step(truncated=True, final=NAN),
        step(truncated=False, reward=NAN),
    ],
    ids=["reward at a cut", "huge reward at a cut", "observation at a cut", "reward"],
)
def test_nan_counts_wherever_it_comes(broken):
    said: list[str] = []
    watch = SimulatorWatch(0.01, said.append)
    assert [watch.problem(broken, dropped) for dropped in range(1, 11)] == [None] * 10, (
        "ten of the first thousand may be"
    )
    assert "11 of 11 transitions held NaN or Inf" in (watch.problem(broken, 11) or "")
    assert [line.split(":")[0] for line in said] == ["warning"]


def test_final_observations_that_are_not_shown_never_do():
    said: list[str] = []
    watch = SimulatorWatch(0.0, said.append)
    assert all(watch.problem(step(truncated=True), dropped) is None for dropped in range(1, 100))
    assert [line.split(":")[0] for line in said] == ["note"]


def test_outliers_are_told_once_and_not_again_by_the_resumed_run():
    said: list[str] = []
    watch = SimulatorWatch(0.01, said.append)
    for count in (0, 1, 1, 0, 1, 2):
        watch.outliers(count)
    assert len(said) == 1
    resumed = SimulatorWatch(0.01, said.append)
    resumed.begin(0, 2)
    resumed.outliers(2)
    assert len(said) == 1
    resumed.outliers(3)
    assert len(said) == 2
