"""`flashsac list`: what there is, what is installed, and how to get the rest."""

from __future__ import annotations

import sys

from flashsac.errors import UnknownTask
from flashsac.sims.engines import ENGINES
from flashsac.sims.tasks import SUITES, Task, tasks

LONG = 60
"""Suites with more tasks than this show only the paper's unless they are asked for."""


def print_tasks(wanted: str | None = None, *, paper: bool = False) -> None:
    from rich.console import Console

    if wanted is not None and wanted not in SUITES:
        raise UnknownTask(f"there is no suite '{wanted}'; there are {', '.join(SUITES)}.")
    # Into a pipe or a file nothing must be cut off.
    console = Console(soft_wrap=True, highlight=False, width=None if sys.stdout.isatty() else 160)
    if paper:
        console.print(
            _table([task for task in tasks().values() if task.normal is not None and wanted in (None, task.suite)])
        )
        return
    for name, suite in SUITES.items():
        if wanted not in (None, name):
            continue
        rows = [task for task in tasks().values() if task.suite == name]
        console.print(f"[bold]{name}[/bold]: {suite.about} (preset {suite.preset}, discount {suite.discount:g})")
        for engine in sorted({engine for task in rows for engine in task.engines}):
            package = ENGINES[engine].packages[name]
            state = "installed" if package.installed else f"not installed: {package.install}"
            console.print(f"  {engine}: {state}", markup=False)
        shown = rows if wanted or len(rows) <= LONG else [task for task in rows if task.normal is not None] or rows[:5]
        console.print(_table(shown))
        if len(shown) < len(rows):
            console.print(f"  ... and {len(rows) - len(shown)} more: flashsac list {name}", markup=False)
        console.print()
    console.print(
        "Any other Gymnasium environment: gym:ID, or module:function of your own that makes one.", markup=False
    )


def _table(rows: list[Task]):
    from rich.table import Column, Table

    # Where there are privileged observations their width is in parentheses, as in the paper.
    titles = ("observation", "action", "random", "normal", "metric", "discount", "preset", "engines")
    table = Table(Column("task", no_wrap=True), *(Column(title, no_wrap=True) for title in titles), box=None)
    for task in rows:
        suite = SUITES[task.suite]
        obs = "84x84x9" if task.suite == "dmc-vision" else str(task.obs)
        table.add_row(
            task.full_name,
            obs if task.critic_obs is None else f"{obs} ({task.critic_obs})",
            str(task.action),
            "" if task.random is None else f"{task.random:g}",
            "" if task.normal is None else f"{task.normal:g}",
            task.metric,
            f"{suite.discount:g}",
            suite.preset,
            ", ".join(task.engines),
        )
    return table
