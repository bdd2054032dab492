"""`flashsac list`: what there is, what is installed, and how to get the rest."""

from __future__ import annotations

import sys

from flashsac.errors import UnknownTask
from flashsac.sims.registry import ENGINES, SUITES, install_line, tasks


def print_tasks(wanted: str | None = None) -> None:
    from rich.console import Console
    from rich.table import Column, Table

    if wanted is not None and wanted not in SUITES:
        raise UnknownTask(f"there is no suite '{wanted}'; there are {', '.join(SUITES)}.")
    # Into a pipe or a file nothing must be cut off.
    console = Console(soft_wrap=True, highlight=False, width=None if sys.stdout.isatty() else 140)
    for name, suite in SUITES.items():
        if wanted not in (None, name):
            continue
        rows = [task for task in tasks().values() if task.suite == name]
        engines = sorted({engine for task in rows for engine in task.engines})
        console.print(f"[bold]{name}[/bold]: {suite.about} (preset {suite.preset}, discount {suite.discount:g})")
        for engine in engines:
            state = (
                "installed"
                if ENGINES[engine].installed(name)
                else f"not installed: {install_line(ENGINES[engine].extra)}"
            )
            console.print(f"  {engine}: {state}", markup=False)
        table = Table(
            Column("task", no_wrap=True), "observation", "privileged", "action", "engines", box=None, padding=(0, 2)
        )
        for task in rows:
            privileged = str(task.critic_obs) if task.critic_obs else ""
            table.add_row(task.full_name, str(task.obs), privileged, str(task.action), ", ".join(task.engines))
        console.print(table)
        console.print()
    console.print(
        "Any other Gymnasium environment: gym:ID, or module:function of your own that makes one.", markup=False
    )
