"""How a command reads its arguments: into a dataclass of options, by tyro. A field's docstring is its help text."""

from __future__ import annotations

import contextlib
import dataclasses
import decimal
import functools
import io
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import tyro

from flashsac.errors import FlashSACError, UsageError

Options = TypeVar("Options")

HELP = ("-h", "--help")

Run = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]

TrustRun = Annotated[
    bool,
    tyro.conf.FlagCreatePairsOff,
    tyro.conf.arg(
        help="Import the module that the run itself names as its task. Its code runs: only for runs you trust."
    ),
]


@dataclasses.dataclass(frozen=True)
class SimulatorOptions:
    """The simulator, where it shall differ from the training's."""

    engine: str | None = None
    """What simulates it (default: what it was trained with)."""
    options: tuple[str, ...] | None = None
    """Simulator settings, name=value, in place of the training's. The flag without values gives the task's defaults."""


def parse(
    kind: type[Options],
    arguments: list[str],
    command: str,
    *,
    question: str = "",
    default: Options | None = None,
    description: str | None = None,
    refusal: str | None = None,
) -> Options:
    """The options of `flashsac COMMAND`. Help and errors of usage are printed, and end the program.

    `question` is the error if nothing is missing but the positional argument. `refusal` is the error for unknown options."""
    read = functools.partial(tyro.cli, kind, prog=f"flashsac {command}", description=description, registry=_numbers())
    if default is not None:
        read = functools.partial(read, default=default)
    if any(argument in HELP for argument in arguments):
        return read(args=arguments)
    options, unknown = _attempt(read, arguments)
    if options is not None and not unknown:
        return options
    if options is None:  # is the positional argument missing, or did tyro take an unknown option for it?
        stand_in = ["?", *arguments]
        options, unknown = _attempt(read, stand_in)
        if options is not None and not unknown:
            raise UsageError(question)
        arguments = arguments if options is None else stand_in
    if unknown and refusal:
        raise FlashSACError(f"{' '.join(unknown)}: {refusal}")
    return read(args=arguments)  # prints what is wrong, and exits


def _attempt(read: Callable[..., Any], arguments: list[str]) -> tuple[Any, list[str]]:
    """The options, or None if they cannot be read, and the arguments that are unknown. Prints nothing."""
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        return read(args=arguments, return_unknown_args=True)
    return None, []


def whole_number(text: str) -> int:
    """Digits, or a short form of them: 1e6, 100k, 2.5M."""
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)(?:[eE]\+?(\d{1,2})|([kKmM]))", text):
        number, exponent, letter = match.groups()
        value = decimal.Decimal(number).scaleb(int(exponent) if exponent else {"k": 3, "m": 6}[letter.lower()])
        if value == int(value):
            return int(value)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"'{text}' is no whole number, such as 1000, 1e6, 100k or 2.5M") from None


def _numbers() -> tyro.constructors.ConstructorRegistry:
    """Tells tyro to read every int by `whole_number`."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[int] | None:
        if info.type is not int:
            return None
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs=1,
            metavar="INT",
            instance_from_str=lambda texts: whole_number(texts[0]),
            is_instance=lambda value: isinstance(value, int),
            str_from_instance=lambda value: [str(value)],
        )

    return registry
