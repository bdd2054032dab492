"""Compiled code: where it is kept, and that it is the right one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from flashsac.training.compile import compiler_for, compiler_missing
from flashsac.training.compile_cache import Compiled, source_digest

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def test_the_compiler_that_counts_is_the_one_torch_will_call(monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("shutil.which", lambda name: name if name == "clang++" else None)
    monkeypatch.delenv("CXX", raising=False)
    assert "no C++ compiler was found (g++)" in (compiler_missing() or "")
    monkeypatch.setenv("CXX", "clang++")
    assert "C++" not in (compiler_missing() or "")


def test_compiled_code_is_kept_in_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # so that it is put back afterwards
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    compiler_for(CPU)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "flashsac" / "compiled")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "elsewhere")
    compiler_for(CPU)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "elsewhere", "the user's own choice wins"
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    compiler_for(CPU)
    here_only = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    assert here_only.stat().st_mode & 0o777 == 0o700, "nowhere to write: a folder for this process alone"
    assert here_only.is_relative_to(tempfile.gettempdir())


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("mode", "stranger"), [(0o777, False), (0o770, False), (0o755, True)])
def test_compiled_code_that_others_may_have_written_is_not_loaded(monkeypatch, tmp_path, mode, stranger, named):
    cache = tmp_path / "flashsac" / "compiled"
    cache.mkdir(parents=True)
    cache.chmod(mode)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache) if named else "")
    if stranger:
        monkeypatch.setattr(os, "getuid", lambda: cache.stat().st_uid + 1)
    said: list[str] = []
    compiler_for(CPU, said.append)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] != str(cache)
    assert len(said) == 1
    assert "compiled anew" in said[0]
    monkeypatch.undo()
    cache.chmod(0o700)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    compiler_for(CPU, said.append)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(cache)
    assert len(said) == 1


def test_nothing_imports_the_compiler_before_its_cache_is_chosen(tmp_path):
    """torch fixes the directory when torch._dynamo is imported."""
    code = (
        "import os, sys, torch, flashsac.training.start, flashsac.training.compile as t; assert 'torch._dynamo' not in sys.modules;"
        "t.compiler_for(torch.device('cpu')); import torch._inductor.utils; from torch._inductor.runtime.cache_dir_utils "
        "import cache_dir; print(cache_dir())"
    )
    env = {k: v for k, v in os.environ.items() if k != "TORCHINDUCTOR_CACHE_DIR"} | {"XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / "flashsac" / "compiled")


class Counter:
    """Something to compile: a constant is built in, a tensor changes in place."""

    def __init__(self, step: float):
        self.step, self.total = step, torch.zeros(3)

    def add(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x * self.step)
        return self.total.sum()


def fresh(step: float) -> tuple[Counter, Compiled, float]:
    counter = Counter(step)
    compiled = Compiled(counter.add)
    return counter, compiled, compiled(torch.arange(3.0)).item()


def test_compiled_code_is_kept_and_loaded_instead_of_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    compiler_for(CPU)
    counter, compiled, total = fresh(2.0)
    assert total == 6.0
    assert compiled(torch.ones(3)).item() == 12.0
    assert counter.total.tolist() == [2.0, 4.0, 6.0], "it works on the owner's own tensors"
    (kept,) = (tmp_path / "flashsac").iterdir()

    assert fresh(3.0)[2] == 9.0, "a constant is built in: this is other code"
    assert len(list((tmp_path / "flashsac").iterdir())) == 2

    written = kept.stat().st_mtime_ns
    counter, compiled, total = fresh(2.0)
    assert (total, counter.total.tolist()) == (6.0, [0.0, 2.0, 4.0])
    assert kept.stat().st_mtime_ns == written, "compiled again"
    with pytest.raises(AssertionError):
        compiled(torch.ones(4))  # not what it was compiled for

    kept.write_bytes(kept.read_bytes()[:1000])
    assert fresh(2.0)[2] == 6.0, "a file cut short is made anew"
    assert kept.stat().st_size > 1000
    (tmp_path / "flashsac").rename(tmp_path / "gone")
    (tmp_path / "flashsac").touch()
    assert fresh(2.0)[2] == 6.0, "and where nothing can be kept, it works all the same"


def test_code_of_another_owner_is_not_taken(monkeypatch, tmp_path):
    """The file's name should tell them apart already; what was compiled knows for itself."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    compiler_for(CPU)
    assert fresh(2.0)[2] == 6.0
    (kept,) = (tmp_path / "flashsac").iterdir()
    shutil.copy(kept, Compiled(Counter(3.0).add).path((torch.arange(3.0),)))
    assert fresh(3.0)[2] == 9.0


def test_no_source_to_digest_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no source of the algorithm"):
        source_digest(tmp_path)


def test_a_function_replaced_for_an_experiment_is_compiled_anew(monkeypatch):
    from flashsac.core import networks

    compiled = Compiled(Counter(2.0).add)
    before = compiled.path((torch.ones(3),))
    assert compiled.path((torch.ones(3),)) == before
    with monkeypatch.context() as patch:
        patch.setattr(networks, "_unit_rows", lambda weight: weight)
        assert compiled.path((torch.ones(3),)) != before
    with monkeypatch.context() as patch:
        patch.setattr(networks.BatchNorm, "forward", lambda self, x, train: x)
        assert compiled.path((torch.ones(3),)) != before
    assert compiled.path((torch.ones(3),)) == before


def test_acting_compiled_equals_uncompiled(make_spec):
    from flashsac.config.schema import AgentConfig
    from flashsac.core.update import Learner

    torch.manual_seed(0)
    learner = Learner(make_spec(obs=5, action=3), AgentConfig(actor_width=8, critic_width=8), CPU)
    obs, noise = {"actor": torch.randn(2, 5)}, torch.randn(2, 3)
    with torch.no_grad():
        expected = learner.explore(obs, noise)
        assert torch.allclose(compiler_for(CPU)(learner.explore)(obs, noise), expected, atol=1e-6)
        mean, log_std = learner.actor(obs["actor"], False)
    assert torch.equal(expected, torch.tanh(mean + log_std.exp() * noise))
