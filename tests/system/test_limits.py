"""Limits of settings stand beside their fields; one function reports every violation by its flag."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, Literal

import pytest

from flashsac.errors import FlashSACError
from flashsac.system.limits import Above, AtLeast, Between, check_limits, flag, problems


@dataclasses.dataclass(frozen=True)
class Agent:
    learning_rate: Annotated[float, Above(0)] = 3e-4
    discount: Annotated[float, Between(0, 1)] = 0.99
    tilt: Annotated[float, Between(0, math.pi, "(]")] = 1.0
    seed: Annotated[int, Between(0, 2**31 - 1, "[]")] = 0


@dataclasses.dataclass(frozen=True)
class Settings:
    steps: Annotated[int, AtLeast(1)] = 10
    capacity: Annotated[int | None, AtLeast(1)] = None
    every: Annotated[int, AtLeast(0)] | None = None
    device: Literal["cpu", "cuda"] = "cpu"
    name: str | None = "nan"
    agent: Agent = dataclasses.field(default_factory=Agent)


def test_defaults_and_none_have_no_problems():
    assert problems(Settings()) == []
    check_limits(Settings())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(steps=0), "--steps must be at least 1, not 0"),
        (dict(steps=-20_000_000), "--steps must be at least 1, not -20000000"),
        (dict(capacity=0), "--capacity must be at least 1, not 0"),
        (dict(every=-1), "--every must be at least 0, not -1"),
        (dict(agent=Agent(learning_rate=0.0)), "--agent.learning-rate must be above 0, not 0"),
        (dict(agent=Agent(learning_rate=math.nan)), "--agent.learning-rate must be above 0, not nan"),
        (dict(agent=Agent(learning_rate=math.inf)), "--agent.learning-rate must be above 0, not inf"),
        (dict(agent=Agent(discount=1.0)), "--agent.discount must lie in [0, 1), not 1"),
        (dict(agent=Agent(discount=math.nan)), "--agent.discount must lie in [0, 1), not nan"),
        (dict(agent=Agent(tilt=60.0)), "--agent.tilt must lie in (0, 3.14159], not 60"),
        (dict(agent=Agent(tilt=0.0)), "--agent.tilt must lie in (0, 3.14159], not 0"),
        (dict(agent=Agent(seed=2**31)), "--agent.seed must lie in [0, 2147483647], not 2147483648"),
    ],
)
def test_a_violated_limit_is_named_by_its_flag(changes: dict[str, Any], message: str):
    assert problems(Settings(**changes)) == [message]


def test_the_ends_of_an_interval():
    fine = Settings(agent=Agent(discount=0.0, tilt=math.pi, seed=2**31 - 1))
    assert problems(fine) == []


def test_all_problems_are_told_at_once():
    with pytest.raises(FlashSACError) as error:
        check_limits(Settings(steps=0, every=-1))
    assert str(error.value) == "--steps must be at least 1, not 0; --every must be at least 0, not -1."


def test_flags():
    assert flag("num_envs", "--env.") == "--env.num-envs"
    assert flag("steps") == "--steps"
