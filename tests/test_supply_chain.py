"""What is installed is pinned, and verified by hashes that say the same as the pins."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.helpers import ROOT

PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def pins(file: str) -> dict[str, str]:
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in PIN.findall((ROOT / file).read_text())}


def test_the_lock_holds_the_pins():
    locked, pinned = pins("requirements.lock"), pins("constraints.txt")
    assert len(locked) > 80
    assert pinned.keys() - locked.keys() == {"torch"}
    assert {name: version for name, version in locked.items() if name in pinned} == {
        name: version for name, version in pinned.items() if name != "torch"
    }
    only_elsewhere = locked.keys() - pinned.keys()
    assert only_elsewhere <= {"colorama"}, "pinned nowhere: add them to constraints.txt, then run scripts/lock.py"


@pytest.mark.parametrize("file", ["requirements.lock", "constraints/release.lock"])
def test_everything_locked_has_hashes_and_names_no_server(file):
    text = (ROOT / file).read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=[\w.-]+==)", text)
    for entry in entries[1:] if text.startswith("#") else entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry.splitlines()[0]


def test_the_build_backend_is_pinned_to_the_same_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["build-system"]["requires"] == [f"hatchling=={pins('requirements.lock')['hatchling']}"]


def test_setup_verifies_what_it_installs():
    setup = (ROOT / "Makefile").read_text().partition("$(VENV)/.installed:")[2].partition("\n\n")[0]
    installs = [line for line in setup.splitlines() if "pip install" in line]
    assert len(installs) == 3
    hashed, torch, ours = installs
    assert "--require-hashes" in hashed
    assert torch.endswith("torch")
    assert "--no-deps --no-build-isolation" in ours
