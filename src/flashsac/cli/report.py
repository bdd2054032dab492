"""`flashsac report`: learning curves of runs, as pictures, tables and one page for a browser."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from flashsac.cli.parsing import parse
from flashsac.errors import FlashSACError, UsageError
from flashsac.system.limits import AtLeast, check_limits

COLUMNS = ("task", "method", "metric", "env_step", "seeds", "mean", "ci_low", "ci_high")
"""Columns that a table of published curves must have."""


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """Draw evaluation curves over seeds: against steps and against time, as PNG and CSV, and one HTML page of all.

    Runs on several tasks with reference scores also get aggregate scores, in scores.csv and scores.png.
    Runs of different settings get curves of their own. NAME=RUN puts runs into one curve of that name."""

    runs: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN ...", help_behavior_hint="(required)")
    ]
    """Run directories, or directories that hold some, each alone or as NAME=RUN."""
    out: Annotated[str, tyro.conf.arg(metavar="DIR")]
    """Directory for the page, the pictures and the tables."""
    published: str | None = None
    """CSV of published curves to draw beside them (task, method, metric, env_step, seeds, mean, ci_low, ci_high)."""
    at: Annotated[int | None, AtLeast(1)] = None
    """Step at which scores over several tasks are compared (default: each run's last evaluation)."""
    embed_videos: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Put the videos into the page, so that it is one file to send. Otherwise they lie beside it."""


def main(arguments: list[str]) -> int:
    """The command."""
    options = parse(ReportOptions, arguments, "report")
    if not options.runs:
        raise UsageError("which run? usage: flashsac report RUN ... --out DIR")
    check_limits(options)
    from flashsac.experiments.grouping import group_paths
    from flashsac.experiments.report import report

    published = _published(options.published) if options.published else None
    groups = group_paths(list(options.runs))
    for file in report(groups, Path(options.out), published, print, options.at, embed_videos=options.embed_videos):
        print(f"wrote {file}")
    return 0


def _published(name: str) -> Path:
    """The table of published curves, if it is one."""
    try:
        with open(name, newline="") as file:
            header = next(csv.reader(file), [])
    except OSError as error:
        raise FlashSACError(f"--published {name}: the file cannot be read ({error.strerror}).") from None
    except (ValueError, csv.Error):
        header = []
    if missing := [column for column in COLUMNS if column not in header]:
        raise FlashSACError(
            f"--published {name}: it is no CSV of published curves, it has no column {', '.join(missing)}."
        )
    return Path(name)
