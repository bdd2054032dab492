"""Taking arguments off a command line before tyro parses the rest."""

from __future__ import annotations

from flashsac.errors import FlashSACError


def leading(arguments: list[str]) -> tuple[str | None, list[str]]:
    """The positional argument in front, if there is one."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    return None, arguments


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


def only_path(arguments: list[str], command: str) -> str:
    path, rest = leading(arguments)
    if path is None or rest:
        raise FlashSACError(f"usage: flashsac {command} RUN")
    return path
