"""More environments than fit are refused before any is made."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from flashsac.errors import NotEnoughMemory
from flashsac.sims import registry
from flashsac.sims.registry import check_memory
from flashsac.sims.tasks import tasks


def test_too_many_dogs_are_refused_before_anything_heavy_is_loaded():
    code = (
        "import sys; from flashsac.cli import main; code = main(['train', 'dmc:dog-walk', '--env.num-envs', '10000']);"
        "print(code, sorted({'torch', 'dm_control', 'envpool'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1 []"
    assert "10,000 environments of dmc:dog-walk take about" in done.stderr
    assert "fit: --env.num-envs" in done.stderr


def test_the_number_that_fits(monkeypatch):
    task = dataclasses.replace(tasks()["dmc:dog-walk"], megabytes=100.0)
    monkeypatch.setattr(registry, "available_memory", lambda: 10e9)
    check_memory(task, "envpool", 90)
    with pytest.raises(NotEnoughMemory, match=r"91 environments .* 90 fit: --env.num-envs 64"):
        check_memory(task, "envpool", 91)
    check_memory(task, "mjlab", 1000)  # keeps no model per environment
    with pytest.raises(NotEnoughMemory, match="450 fit"):  # nobody has measured it: twenty each
        check_memory(dataclasses.replace(task, megabytes=None), "envpool", 10**6)
