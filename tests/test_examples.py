"""Every example runs, with a network and a number of steps small enough for a test."""

from __future__ import annotations

import pytest

from tests.helpers import ROOT, TINY, from_file

pytestmark = pytest.mark.slow

EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))


def run(name: str, folder, **changes):
    return from_file(f"examples/{name}").main(str(folder / "run"), **TINY | changes)


def test_each_example_has_a_test():
    assert EXAMPLES == [
        "custom_hook.py",
        "evaluate_and_film.py",
        "export_to_numpy.py",
        "own_gymnasium.py",
        "own_vectorised.py",
        "resume.py",
    ]


def test_own_gymnasium(tmp_path, capsys):
    run("own_gymnasium.py", tmp_path)
    assert "'eval_success'" in capsys.readouterr().out


def test_own_vectorised(tmp_path, capsys):
    run("own_vectorised.py", tmp_path, steps=6000, env=dict(num_envs=20))
    assert "'eval_return'" in capsys.readouterr().out


def test_resume(tmp_path, capsys):
    run("resume.py", tmp_path)
    said = capsys.readouterr().out
    assert "stopped at step 30" in said
    assert "finished at step 600" in said


def test_evaluate_and_film(tmp_path):
    assert run("evaluate_and_film.py", tmp_path).stat().st_size > 1000


def test_export_to_numpy(tmp_path):
    assert -2000 < run("export_to_numpy.py", tmp_path) < 0


def test_custom_hook(tmp_path, capsys):
    hook = run("custom_hook.py", tmp_path, target=-10_000.0)
    assert hook.checkpoints >= 1
    assert "ended at step 200" in capsys.readouterr().out
