"""A short run of every fuzzing target; scripts/fuzz.py runs them for as long as you like."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.mutate import mutate, targets

TARGETS = targets()


@pytest.mark.parametrize("name", TARGETS)
def test_valid_input_is_accepted(name):
    """Else nothing behind the first check is ever attacked. Some seeds are valid only up to a later check."""
    accepted = [TARGETS[name].attack(data) for data in TARGETS[name].seeds()]
    assert any(accepted)


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_our_own_errors_comes_out(name):
    seeds, attack = TARGETS[name].seeds(), TARGETS[name].attack

    @settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(seeds), st.integers(0, 2**32), st.one_of(st.none(), st.binary(max_size=200)))
    def check(seed: bytes, number: int, other: bytes | None) -> None:
        attack(mutate(seed, random.Random(number)) if other is None else other)

    check()
