"""Arguments of a command line: taken off before tyro parses the rest, and checked."""

from __future__ import annotations

import decimal
import re
from collections.abc import Collection
from pathlib import Path

from flashsac.errors import FlashSACError


def leading(arguments: list[str]) -> tuple[str | None, list[str]]:
    """The positional argument in front, if there is one."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    return None, arguments


def leading_task(arguments: list[str], suites: Collection[str]) -> tuple[str | None, list[str]]:
    """The task in front; or, after options, the one argument that can be nothing else."""
    if arguments and not arguments[0].startswith("-"):
        return leading(arguments)

    def is_task(i: int) -> bool:
        if ":" not in arguments[i] or arguments[i].startswith("-"):
            return False
        # What follows an option may be its value (--device cuda:1), unless it begins like a task of ours.
        return arguments[i].split(":")[0] in suites or not arguments[i - 1].startswith("-")

    found = [i for i in range(1, len(arguments)) if is_task(i)]
    if len(found) != 1:
        return None, arguments
    return arguments[found[0]], arguments[: found[0]] + arguments[found[0] + 1 :]


def leading_path(arguments: list[str]) -> tuple[str | None, list[str]]:
    """The path in front; or, after options, an existing one at the end."""
    if len(arguments) > 1 and arguments[0].startswith("-") and Path(arguments[-1]).exists():
        return arguments[-1], arguments[:-1]
    return leading(arguments)


def take_option(arguments: list[str], name: str) -> tuple[str | None, list[str]]:
    """The value of `name VALUE` or `name=VALUE`, and the arguments without it."""
    for i, argument in enumerate(arguments):
        if argument == name:
            if i + 1 == len(arguments):
                raise FlashSACError(f"{name} needs a value.")
            return arguments[i + 1], arguments[:i] + arguments[i + 2 :]
        if argument.startswith(f"{name}="):
            return argument.partition("=")[2], arguments[:i] + arguments[i + 1 :]
    return None, arguments


def write_out_numbers(arguments: list[str], flags: Collection[str]) -> list[str]:
    """1e6, 100k and 2.5M as digits, after flags that take whole numbers."""
    out: list[str] = []
    for i, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if equals and flag.replace("_", "-") in flags:
            out.append(f"{flag}={_digits(value)}")
        else:
            out.append(_digits(argument) if i and arguments[i - 1].replace("_", "-") in flags else argument)
    return out


def _digits(text: str) -> str:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:[eE]\+?(\d{1,2})|([kKmM]))", text)
    if match is None:
        return text
    number, exponent, letter = match.groups()
    value = decimal.Decimal(number).scaleb(int(exponent) if exponent else {"k": 3, "m": 6}[letter.lower()])
    return str(int(value)) if value == int(value) else text
