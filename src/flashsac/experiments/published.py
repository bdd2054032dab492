"""Published curves: a CSV file that is checked and read once, and what it says of each task."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

import numpy as np

from flashsac.errors import FlashSACError
from flashsac.experiments.comparison import Comparison, Published
from flashsac.experiments.curves import Band, metric_of
from flashsac.sims.catalog import suite_of

COLUMNS = ("task", "method", "metric", "env_step", "seeds", "mean", "ci_low", "ci_high")
"""Columns that a file needs. One more, `group`, is optional."""
VISION = "vision"
"""The group of tasks that are seen as images. The same names stand for other tasks elsewhere."""
ABLATION = "ablation"
"""Groups that begin with this hold variants of one method, under the names of a sweep's variants."""

Row = dict[str, str]


class PublishedCurves:
    """The curves of a file, by task and method. A file that cannot be used is an error at once."""

    def __init__(self, path: Path):
        self._by_task: dict[str, list[Row]] = defaultdict(list)
        for row in _checked_rows(path):
            self._by_task[row["task"]].append(row)

    def beside(self, comparison: Comparison) -> Published:
        """Return the curves that belong beside runs: those of their tasks, and ablations of the same variants."""
        return {
            task: self.of_task(task, {*lines, *(run.variant for runs in lines.values() for run in runs if run.variant)})
            for task, lines in comparison.items()
        }

    def of_task(self, task: str, variants: Collection[str] = ()) -> dict[str, Band]:
        """Return the curves of a task by method. Of ablations only those of `variants` are among them."""
        suite = suite_of(task)
        from_images = suite is not None and bool(suite.images)
        by_method: dict[str, list[Row]] = defaultdict(list)
        for row in self._by_task.get(task.split(":")[-1], []):
            group, method = row.get("group") or "", row["method"]
            wanted = not group.startswith(ABLATION) or method in variants
            if wanted and (group == VISION) == from_images and row["metric"] == metric_of(task).published:
                by_method[method].append(row)
        return {method: _band(task, rows) for method, rows in by_method.items()}


def _band(task: str, rows: list[Row]) -> Band:
    rows = sorted(rows, key=lambda row: float(row["env_step"]))
    suite, factor = suite_of(task), metric_of(task).factor
    x = np.array([float(row["env_step"]) for row in rows]) / (suite.action_repeat if suite else 1)
    mean, low, high = (  # one seed has no interval
        factor * np.array([float(row[name] or row["mean"]) for row in rows]) for name in ("mean", "ci_low", "ci_high")
    )
    return Band(x, mean, low, high, seeds=int(rows[0]["seeds"]))


def _checked_rows(path: Path) -> list[Row]:
    """Return the rows of a file, each whole and with numbers where there must be some."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            columns = reader.fieldnames or ()
            if missing := [name for name in COLUMNS if name not in columns]:
                raise FlashSACError(
                    f"{path} lacks the column {', '.join(missing)}. A CSV of published curves has the columns "
                    f"{', '.join(COLUMNS)}, and may have a column group."
                )
            rows = [_checked(path, reader.line_num, row) for row in reader]
    except OSError as error:
        raise FlashSACError(f"{path} cannot be read ({error.strerror}). Name a CSV of published curves.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise FlashSACError(f"{path} is no CSV file ({error}). Name a CSV of published curves.") from None
    return rows


def _checked(path: Path, line: int, row: Row) -> Row:
    try:
        int(row["seeds"])
        for name in ("env_step", "mean", "ci_low", "ci_high"):
            float(row[name] or (0 if name.startswith("ci_") else ""))
    except (TypeError, ValueError):  # TypeError: the row is too short
        raise FlashSACError(
            f"{path}, line {line}: seeds must be a whole number, env_step and mean numbers; ci_low and ci_high are "
            "numbers or empty."
        ) from None
    return row
