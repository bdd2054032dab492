"""The choice of precision and where compiled code is kept."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from flashsac.core import compiler

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
    seconds = {torch.float32: 1.0, torch.bfloat16: bf16, torch.float16: fp16}
    monkeypatch.setattr(compiler, "product_seconds", lambda device, dtype, limit=0: seconds[dtype])
    assert compiler.fastest_precision(CPU) == choice


def test_it_measures_this_machine():
    assert 0 < compiler.product_seconds(CPU, torch.float32) < 10


def test_compiled_code_is_kept_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # so that it is put back afterwards
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    compiler.compiler_for(CPU)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "flashsac" / "compiled")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "elsewhere")
    compiler.compiler_for(CPU)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "elsewhere", "the user's own choice wins"
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    compiler.compiler_for(CPU)
    assert "TORCHINDUCTOR_CACHE_DIR" not in os.environ, "nowhere to write: torch's own place"


def test_nothing_imports_the_compiler_before_its_cache_is_chosen(tmp_path):
    """torch fixes the directory when torch._dynamo is imported."""
    code = (
        "import os, sys, torch, flashsac.trainer as t; assert 'torch._dynamo' not in sys.modules;"
        "t.compiler_for(torch.device('cpu')); import torch._inductor.utils; from torch._inductor.runtime.cache_dir_utils "
        "import cache_dir; print(cache_dir())"
    )
    env = {k: v for k, v in os.environ.items() if k != "TORCHINDUCTOR_CACHE_DIR"} | {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / "flashsac" / "compiled")


def test_acting_compiled_equals_uncompiled(make_spec):
    from flashsac.config import AgentConfig
    from flashsac.core.update import Learner

    torch.manual_seed(0)
    learner = Learner(make_spec(obs=5, action=3), AgentConfig(actor_width=8, critic_width=8), CPU)
    obs, noise = torch.randn(2, 5), torch.randn(2, 3)
    with torch.no_grad():
        expected = learner.explore(obs, noise)
        assert torch.allclose(compiler.compiler_for(CPU)(learner.explore)(obs, noise), expected, atol=1e-6)
        mean, log_std = learner.actor(obs, False)
    assert torch.equal(expected, torch.tanh(mean + log_std.exp() * noise))
