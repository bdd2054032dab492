"""How a command reads its arguments: into a dataclass of options, by tyro. A field's docstring is its help text."""

from __future__ import annotations

import contextlib
import dataclasses
import decimal
import functools
import io
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import tyro

from flashsac.config.schema import PresetName
from flashsac.errors import FlashSACError, UsageError
from flashsac.system.suggest import did_you_mean, nearest

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
    read = functools.partial(tyro.cli, kind, prog=f"flashsac {command}", description=description, registry=_registry())
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
    """The options, or None if they are incomplete, and the arguments that are unknown. This prints nothing."""
    try:
        with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            return read(args=arguments, return_unknown_args=True)
    except _BadValue as error:
        raise UsageError(f"{_option_of(error.text, arguments)}: {error}") from None
    return None, []


class _BadValue(Exception):
    """The value of an option cannot be read. It is no ValueError, because tyro would put that into a box."""

    def __init__(self, text: str, problem: str):
        super().__init__(problem)
        self.text = text


def _option_of(text: str, arguments: list[str]) -> str:
    """The option that was given this value."""
    option = "a number"
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if argument.startswith("--"):
            option = name
        if (value if equals and argument.startswith("--") else argument) == text:
            break
    return option


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
    if last in get_args(PresetName) and "--preset" in flags:
        near = near or [f"--preset {last}"]
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


def number(text: str) -> float:
    """A number, whole or not."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"'{text}' is no number; write 0.5, 1e-3 or 10, for example") from None


def _registry() -> tyro.constructors.ConstructorRegistry:
    """The registry that makes tyro read numbers and choices by the functions here."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def rule(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        if get_origin(info.type) is Literal:
            choices = [str(choice) for choice in get_args(info.type)]
            return _constructor(f"{{{','.join(choices)}}}", functools.partial(_choice, choices), str)
        if info.type not in (int, float):
            return None
        return _constructor(info.type.__name__.upper(), whole_number if info.type is int else number, info.type)

    return registry


def _constructor(
    metavar: str, read: Callable[[str], Any], kind: type
) -> tyro.constructors.PrimitiveConstructorSpec[Any]:
    def instance(texts: list[str]) -> Any:
        try:
            return read(texts[0])
        except ValueError as error:
            raise _BadValue(texts[0], str(error)) from None

    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=instance,
        is_instance=lambda value: isinstance(value, (int, float) if kind is float else kind),
        str_from_instance=lambda value: [str(value)],
    )


def _choice(choices: list[str], text: str) -> str:
    """One of the words that an option takes."""
    if text not in choices:
        raise ValueError(f"there is no '{text}'.{did_you_mean(text, choices)} It is one of {', '.join(choices)}")
    return text
