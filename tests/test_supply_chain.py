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
    assert only_elsewhere <= {"colorama", "nest-asyncio"}, (
        "pinned nowhere: add them to constraints.txt, then run scripts/lock.py"
    )


def test_the_documentation_is_built_with_its_pins():
    locked = pins("constraints/docs.lock")
    assert locked == pins("constraints/docs.txt")
    shared = locked.keys() & pins("constraints.txt").keys()
    assert {name: locked[name] for name in shared} == {name: pins("constraints.txt")[name] for name in shared}


@pytest.mark.parametrize("file", ["requirements.lock", "constraints/release.lock", "constraints/docs.lock"])
def test_everything_locked_has_hashes_and_names_no_server(file):
    text = (ROOT / file).read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=[\w.-]+==)", text)
    for entry in entries[1:] if text.startswith("#") else entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry.splitlines()[0]


def test_the_build_backend_is_pinned_to_the_same_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["build-system"]["requires"] == [f"hatchling=={pins('requirements.lock')['hatchling']}"]


def installs(venv: str) -> list[str]:
    """The lines of the Makefile that install into an environment."""
    rule = (ROOT / "Makefile").read_text().partition(f"$({venv})/.installed:")[2].partition("\n\n")[0]
    return [line for line in rule.splitlines() if "pip install" in line]


def test_setup_verifies_what_it_installs():
    hashed, torch, ours = installs("VENV")
    assert "--require-hashes" in hashed
    assert torch.endswith("torch")
    assert "--no-deps --no-build-isolation" in ours
    (documentation,) = installs("DOCS")
    assert "--require-hashes" in documentation
