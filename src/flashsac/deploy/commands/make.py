"""The source of commands that the options name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from flashsac.deploy.commands.after_enter import AfterEnter
from flashsac.deploy.commands.base import Commands
from flashsac.deploy.commands.fixed import Fixed, Script
from flashsac.deploy.commands.keyboard import Keyboard
from flashsac.deploy.commands.remote import Sticks
from flashsac.deploy.commands.stream import Pipe, open_udp
from flashsac.robots.description import Range


def make_commands(
    source: str | None,
    fixed: tuple[float, float, float],
    keyboard: bool,
    ranges: Sequence[Range],
    wait_for_enter: bool = False,
) -> Commands:
    """`source` is the value of --commands. `ranges` are the commands that the policy was trained on.

    With `wait_for_enter`, a source that would begin by itself begins after Enter."""
    if keyboard:
        return Keyboard(ranges)
    if source == "stdin":
        return Pipe(sys.stdin.fileno())
    if source == "remote":
        return Sticks(ranges)
    if source is not None and source.startswith("udp:"):
        return open_udp(source)
    known = Fixed(fixed) if source is None else Script(Path(source))
    return AfterEnter(known) if wait_for_enter else known
