"""Runs put side by side: by task, then by the name of the line that they share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from flashsac.experiments.curves import Band, Curve
from flashsac.experiments.grouping import LABEL, differing_settings, name_lines, repeated_seeds, split_by_settings
from flashsac.experiments.recorded import RecordedRun
from flashsac.experiments.styles import Style, style
from flashsac.system.limits import flag

Say = Callable[[str], None]
Comparison = dict[str, dict[str, list[RecordedRun]]]
"""The runs of each line, by task and name."""
Published = dict[str, dict[str, Band]]
"""Published curves, by task and method."""


def compare(groups: dict[str, list[RecordedRun]], say: Say) -> Comparison:
    """Put runs side by side. A group without a name is split by settings; a named one is kept, with a warning."""
    by_task: Comparison = defaultdict(lambda: defaultdict(list))
    for name, runs in groups.items():
        for run in runs:
            by_task[run.task][name].append(run)
    return {task: _separate(task, given, say) for task, given in sorted(by_task.items())}


def styles_of(comparison: Comparison, published: Published) -> dict[str, Style]:
    """Return the look of every line, the same on all tasks: ours first, then the published ones."""
    ours = (name for lines in comparison.values() for name in lines)
    theirs = sorted({published_name(method) for lines in published.values() for method in lines})
    return {name: style(i) for i, name in enumerate(dict.fromkeys((*ours, *theirs)))}


def published_name(method: str) -> str:
    """Return the name of a published line, which no line of ours has."""
    return f"{method} (published)"


def all_runs(comparison: Comparison) -> Iterable[tuple[str, str, list[RecordedRun]]]:
    """Yield task, name and runs of every line."""
    return ((task, name, runs) for task, lines in comparison.items() for name, runs in lines.items())


def curves_of(comparison: Comparison) -> dict[str, dict[str, list[Curve]]]:
    """Return the curves of every line, by task and name."""
    return {
        task: {name: [run.curve for run in runs if run.curve] for name, runs in lines.items()}
        for task, lines in comparison.items()
    }


def _separate(task: str, given: dict[str, list[RecordedRun]], say: Say) -> dict[str, list[RecordedRun]]:
    out: dict[str, list[RecordedRun]] = {}
    named = [name for name in given if name != LABEL]
    for name, runs in given.items():
        if name == LABEL:
            lines = name_lines(runs, named)
            _say_what_differs(task, lines, say)
            out |= lines
            continue
        if len(split_by_settings(runs)) > 1:
            different = ", ".join(flag(setting) for setting in differing_settings(runs))
            say(f"warning: the runs of {name} on {task} differ in {different or 'algorithm'}, and share one curve")
        out[name] = runs
    for name, runs in out.items():
        for seed, paths in repeated_seeds(runs).items():
            say(
                f"warning: seed {seed} occurs {len(paths)} times in {name} on {task}: {', '.join(map(str, paths))}. "
                "Repeated seeds are not independent, so the interval is too narrow."
            )
    return out


def _say_what_differs(task: str, lines: dict[str, list[RecordedRun]], say: Say) -> None:
    """Name the settings that tell lines apart, where no variant of a sweep does."""
    by_variant: dict[str | None, list[RecordedRun]] = defaultdict(list)
    for run in (run for runs in lines.values() for run in runs):
        by_variant[run.variant].append(run)
    for variant, runs in by_variant.items():
        if different := ", ".join(flag(setting) for setting in differing_settings(runs)):
            of = f" of {variant}" if variant else ""
            say(
                f"note: the runs{of} on {task} differ in {different}. Each combination has its own curve; "
                "NAME=PATH puts runs into one."
            )
