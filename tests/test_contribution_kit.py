"""What contributors are told agrees with what the project does."""

from __future__ import annotations

import re

import pytest

import flashsac
from tests.helpers import ROOT


def test_pre_commit_runs_the_checks_of_make_check():
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    wanted = {line.strip().replace("$(BIN)", ".venv/bin").removesuffix(" .") for line in recipe[1].splitlines()}
    hooks = re.findall(r"entry: (.*)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert {hook.removesuffix(" --force-exclude") for hook in hooks} == wanted


def test_the_citation_names_this_version():
    assert f"version: {flashsac.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.parametrize("document", ["CONTRIBUTING.md", ".github/workflows/ci.yml"])
def test_targets_of_make_exist(document):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|run: |`)make ([a-z-]+)", (ROOT / document).read_text(), re.MULTILINE)) <= targets


def test_the_container_copies_what_the_build_needs():
    copied = set(re.findall(r"^COPY (.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    names = {name for line in copied for name in line.split()}
    assert {"src", "pyproject.toml", "README.md", "LICENSE", "constraints.txt", "requirements.lock"} <= names
    assert all((ROOT / name).exists() for name in names)
