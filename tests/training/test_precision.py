"""The precision of the matrix products is chosen by measurement."""

from __future__ import annotations

import pytest
import torch

from flashsac.training import precision

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("bf16", "fp16", "choice"),
    [
        (0.5, 0.4, "bf16"),  # both native: the wider range wins
        (9.0, 0.5, "fp16"),  # an older GPU
        (9.0, 9.0, "fp32"),  # a CPU that emulates both
        (0.9, 0.9, "fp32"),  # not worth it
    ],
)
def test_precision_is_chosen_by_measurement(monkeypatch, bf16, fp16, choice):
    monkeypatch.setattr(precision, "product_seconds", lambda device: {"fp32": 1.0, "bf16": bf16, "fp16": fp16})
    assert precision.fastest_precision(CPU) == choice


def test_a_run_whose_precision_is_only_emulated_here_is_told_so(monkeypatch):
    monkeypatch.setattr(precision, "product_seconds", lambda device: {"fp32": 1.0, "bf16": 9.0, "fp16": 0.5})
    said, slow = precision.precision_notes(CPU, "bf16")
    assert "matrix products in bf16" in said
    assert "bf16 take 9 times as long" in slow
    assert len(precision.precision_notes(CPU, "fp16")) == 1
    assert precision.precision_notes(CPU, "fp32") == []


def test_it_measures_this_machine_once():
    seconds = precision.product_seconds(CPU)
    assert precision.product_seconds(CPU) == seconds, "what a run says of its precision fits the choice"
    assert set(seconds) == {"fp32", "bf16", "fp16"}
    assert all(0 < value < 10 for value in seconds.values())
