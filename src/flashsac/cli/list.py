"""`flashsac list`: what there is, what is installed, and how to get the rest."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from flashsac.errors import UnknownTask
from flashsac.sims.catalog import simulated_by, suites, tasks
from flashsac.sims.registry import simulators
from flashsac.sims.simulator import Task
from flashsac.system.suggest import did_you_mean

LEGEND = (
    "Observation: of the actor, and of the critic if that differs. Metric: what an evaluation is judged by.\n"
    "Random and normal: scores of random actions and of a good policy. The paper scales its results by them."
)
HINT = """\
flashsac list SUITE: its tasks, and how to install it. flashsac list WORD: tasks with that in their name. --paper: the paper's 72.
Any other Gymnasium environment: gym:ID, or module:function of your own that makes one."""


def main(arguments: list[str]) -> int:
    """The command. Its two arguments are read by argparse: tyro takes half as long to import as the list to print."""
    parser = argparse.ArgumentParser(
        prog="flashsac list",
        allow_abbrev=False,
        description="The suites; or a suite's tasks, dimensions and scores; or the tasks with WORD in their name.",
    )
    parser.add_argument("wanted", nargs="?", metavar="SUITE or WORD")
    parser.add_argument("--paper", action="store_true", help="only the paper's tasks")
    options = parser.parse_args(arguments)
    print_tasks(options.wanted, paper=options.paper)
    return 0


def print_tasks(wanted: str | None = None, *, paper: bool = False) -> None:
    """An overview, or the tasks of a suite, or those whose name contains a word."""
    from rich.console import Console

    rows = [task for task in tasks().values() if not paper or task.normal is not None]
    if wanted is not None:
        inside = (lambda task: task.suite == wanted) if wanted in suites() else lambda task: _contains(task, wanted)
        rows = [task for task in rows if inside(task)]
    if not rows and (paper or wanted not in suites()):
        raise _nothing_called(wanted or "", paper)
    # Into a pipe or a file nothing must be cut off.
    console = Console(soft_wrap=True, highlight=False, emoji=False, width=None if sys.stdout.isatty() else 160)
    if wanted is None and not paper:
        console.print(_overview())
        console.print(f"\n{HINT}", markup=False)
        return
    if wanted in suites() and not paper:
        suite = suites()[wanted]
        console.print(f"[bold]{wanted}[/bold]: {suite.about} (preset {suite.preset}, discount {suite.discount:g})")
        for engine in simulated_by(wanted):
            package = simulators()[engine].packages[wanted]
            state = "installed" if package.installed else f"not installed: {package.install}"
            console.print(f"  {engine}: {state}", markup=False)
        if suite.has_more:
            console.print("  its other tasks train too, by the simulator's own name for them", markup=False)
    if rows:
        console.print(_table(rows))
        console.print(f"\n{LEGEND}", markup=False)


def _contains(task: Task, word: str) -> bool:
    return word.lower() in task.full_name.lower()


def _nothing_called(word: str, paper: bool) -> UnknownTask:
    hint = did_you_mean(word, [*suites(), *(task.name for task in tasks().values())], cutoff=0.6)
    where = " in the paper" if paper else ""
    return UnknownTask(
        f"there is no suite '{word}'{where}, and no task with that in its name.{hint} `flashsac list` shows the suites."
    )


def _overview():
    from rich.table import Column, Table

    titles = ("suite", "tasks", "in the paper", "engines", "what")
    table = Table(*(Column(title, no_wrap=title != "what") for title in titles), box=None)
    paper = Counter(task.suite for task in tasks().values() if task.normal is not None)
    for name, suite in suites().items():
        rows = [task for task in tasks().values() if task.suite == name]
        here = {engine: simulators()[engine].packages[name].installed for engine in simulated_by(name)}
        engines = ", ".join(engine if installed else f"{engine} (not installed)" for engine, installed in here.items())
        table.add_row(name, str(len(rows)), str(paper[name] or ""), engines, suite.about)
    return table


def _table(rows: list[Task]):
    from rich.table import Column, Table

    # Where there are privileged observations their width is in parentheses, as in the paper.
    titles = ("observation", "action", "random", "normal", "metric", "discount", "preset", "engines")
    table = Table(Column("task", no_wrap=True), *(Column(title, no_wrap=True) for title in titles), box=None)
    for task in rows:
        suite = suites()[task.suite]
        obs = suite.images or str(task.obs)
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
