"""`flashsac watch`: the page of `flashsac report`, live."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path
from typing import Annotated

import tyro

from flashsac.cli.parsing import parse
from flashsac.system.limits import AtLeast, Between, check_limits


@dataclasses.dataclass(frozen=True)
class WatchOptions:
    """Show runs that go on in a browser: the page of `flashsac report`, followed live.

    It only reads, and works while a browser shows the page. Ctrl-C ends it."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN ...]")] = ("runs",)
    """Run directories, or directories that hold some, each alone or as NAME=RUN."""
    host: str = "127.0.0.1"
    """Address to listen on. Only this machine reaches the default; others reach 0.0.0.0, without a password."""
    port: Annotated[int, Between(0, 65535, "[]")] = 8000
    """Port to listen on; 0 takes a free one."""
    every: Annotated[float, AtLeast(0.5)] = 5.0
    """Seconds between two looks of the page at the runs."""
    published: str | None = None
    """CSV of published curves to draw beside them, as in `flashsac report`."""
    open: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Open a browser."""


def main(arguments: list[str]) -> int:
    """The command."""
    options = parse(WatchOptions, arguments, "watch")
    check_limits(options)
    from flashsac.experiments.grouping import group_paths
    from flashsac.experiments.page.live import LiveData
    from flashsac.experiments.page.server import PageServer
    from flashsac.experiments.page.write import check_plotly

    check_plotly()
    published = Path(options.published) if options.published else None
    if hasattr(os, "nice"):
        os.nice(10)  # the runs come first
    live = LiveData(group_paths(list(options.runs) or ["runs"]), published)
    with PageServer(options.host, options.port, live, options.every) as server:
        print(f"watching {', '.join(options.runs)} on {server.address} (Ctrl-C ends it)", flush=True)
        if options.open:
            import webbrowser

            webbrowser.open(server.address)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0
