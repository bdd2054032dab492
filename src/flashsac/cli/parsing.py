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
from flashsac.system.suggest import nearest

Options = TypeVar("Options")

HELP = ("-h", "--help")

OTHER_NAMES = {
    "lr": ("learning-rate",),
    "alpha": ("initial-temperature",),
    "gamma": ("discount",),
    "tau": ("target-rate",),
    "polyak": ("target-rate",),
    "utd": ("updates-per-transition",),
    "batch": ("batch-size",),
    "buffer": ("capacity",),
    "buffer-size": ("capacity",),
    "hidden": ("critic-width", "actor-width"),
    "hidden-size": ("critic-width", "actor-width"),
    "layers": ("blocks",),
    "envs": ("num-envs",),
    "timesteps": ("steps",),
    "total-timesteps": ("steps",),
    "learning-starts": ("warmup",),
}
"""What other programs call a setting, and our names for it: for hints only, no option is read by these."""

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
    """The simulator, if it shall differ from the training's."""

    engine: str | None = None
    """Engine that simulates the task (default: the training's)."""
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

    `question` is the error if only the positional argument is missing. `refusal` is the error for unknown options."""
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
    if misspelt := [argument.partition("=")[0] for argument in unknown if argument.startswith("--")]:
        raise UsageError(_no_such_option(misspelt[0], _flags(read), command))
    return read(args=arguments)  # prints what is wrong, and exits


def _attempt(read: Callable[..., Any], arguments: list[str]) -> tuple[Any, list[str]]:
    """The options, or None if they cannot be read, and the arguments that are unknown. This prints nothing."""
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        return read(args=arguments, return_unknown_args=True)
    return None, []


def _flags(read: Callable[..., Any]) -> list[str]:
    """All the options of a command, as its help text names them."""
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as text:
        read(args=["--help"])
    return sorted(set(re.findall(r"--[a-z](?:[\w.-]*\w)?", text.getvalue())))


def _no_such_option(given: str, flags: list[str], command: str) -> str:
    """The error for an unknown option, with the option that was probably meant."""
    given = given.replace("_", "-")
    last = given.lstrip("-").rpartition(".")[2]
    names = OTHER_NAMES.get(last, (last,))  # --agent.seed is --seed, --lr is --agent.learning-rate
    near = [flag for name in names for flag in flags if flag.lstrip("-").rpartition(".")[2] == name]
    near = near or nearest(given, flags, count=2, cutoff=0.7)
    meant = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"there is no option {given}.{meant} `flashsac {command} --help` shows all options."


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
        raise ValueError(f"'{text}' is no whole number; write 1000, 1e6, 100k or 2.5M, for example") from None


def _numbers() -> tyro.constructors.ConstructorRegistry:
    """The registry that makes tyro read every int by `whole_number`."""
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
