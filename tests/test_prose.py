"""The prose checker finds what it is meant to find, and the project passes it."""

from __future__ import annotations

import importlib.util

import pytest

from tests.helpers import ROOT

SPEC = importlib.util.spec_from_file_location("check_prose", ROOT / "scripts" / "check_prose.py")
assert SPEC is not None
assert SPEC.loader is not None
check_prose = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_prose)

SHORT = "A run " + "goes on and " * 7 + "ends."
LONG = "A run " + "goes on and " * 8 + "ends."
METHOD = f"""
class A:
    def f(self):
        \"\"\"Return it.

        {LONG.replace(" and ", chr(10) + "        and ", 2)}
        \"\"\"
"""


def test_words_are_counted():
    assert check_prose.words(SHORT) == 24
    assert check_prose.words(LONG) == 27
    assert (
        check_prose.words("See [the log of trials](docs/log.md), `flashsac train --steps 5` and 1,000 of 2.5M steps.")
        == 11
    )


def test_abbreviations_and_decimals_end_no_sentence():
    assert len(check_prose.sentences("It takes 2.5 s, e.g. on a laptop. Then it ends! Does it?")) == 3


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        f"- {LONG}",
        f"1. {LONG}",
        f"| a | {LONG} |",
        f"> {LONG}",
        f"# {LONG}",
        f"<p>{LONG}</p>",
        f"!!! note\n    {LONG}",
        LONG.replace(" and ", "\nand ", 1),
        LONG.replace(" and ", " and\n2026. ", 1).replace(".", ""),
    ],
)
def test_long_sentences_of_a_document_are_found(text):
    assert len(list(check_prose.check_document(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        SHORT,
        f"{SHORT}\n{SHORT}",
        f"{SHORT}\n- {SHORT}",
        f"1. {SHORT}\n2. {SHORT}",
        f"```\n{LONG}\n```",
        f"$$\n{LONG}\n$$",
    ],
)
def test_short_sentences_code_and_formulas_pass(text):
    assert not list(check_prose.check_document(text))


def test_long_lines_of_prose_are_found():
    assert len(list(check_prose.check_document("It is so. " * 13))) == 1
    assert not list(check_prose.check_document("| " + "It is so. " * 13 + "|"))


@pytest.mark.parametrize(
    "source",
    [
        f'"""{LONG}"""',
        f"# {LONG}",
        f"print({LONG!r})",
        "print(f'" + LONG.replace("A run", "{run} it") + "')",
        f"raise ValueError({LONG[:40]!r} + name + {LONG[40:]!r})",
        f"print({LONG.replace(' on', chr(10) + 'on', 3)!r})",
        "print(f'{run or " + f'"{LONG}"' + "}')",
        METHOD,
        f"x = 1\n# - {SHORT}\n# - {LONG}",
        '"""Of BatchNorm: the weight of the newest batch."""',
        'def f():\n    """Returns the mean."""',
        'x = 1\n"""Where it is written."""',
        'x = 1\n"""Added to the variance."""',
        '"""Merges the files."""',
        '"""Must be called once."""',
        '"""The file. Raises an error if it is damaged."""',
    ],
)
def test_findings_in_source(source):
    assert len(list(check_prose.check_source(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        f'"""{SHORT}"""',
        f'"""{SHORT}\n\n- {SHORT}\n- {SHORT}\n"""',
        f'"""The steps::\n\n    {LONG}\n\nThey end.\n"""',
        '"""Steps per second."""',
        '"""Returns, lengths and successes."""',
        '"""Return the mean. With a device it is moved there."""',
        '"""Does it learn?"""',
        "x = 'first command   what it does\\nsecond command   what it does'",
    ],
)
def test_good_source_passes(source):
    assert not list(check_prose.check_source(source))
