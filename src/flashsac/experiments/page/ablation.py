"""Panels of ablations: which lines belong into one, because they build on each other or differ in the same setting.

A chain is a row of lines, each with further settings changed, as in the paper's ablation of the architecture. A star is
one base and lines that differ from it in separate settings, as in the paper's ablations of scale and exploration."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from flashsac.experiments.comparison import published_name
from flashsac.experiments.grouping import ABSENT, BOOKKEEPING, setting_value, spell, spell_number
from flashsac.experiments.page.figures import Lines
from flashsac.system.limits import flag

Settings = dict[str, str]
Panel = dict[str, Any]
"""Title, whether it is a chain, and its lines in order as pairs of name and label. A published line has, in
addition, the name of the line that it belongs to. A chain has the settings that each
step changes, and its columns of metrics.csv."""

CHAIN_COLUMNS = {
    "diag/critic_weight_norm": "parameter norm of the critic",
    "diag/critic_feature_norm": "feature norm of the critic",
    "diag/critic_gradient_norm": "gradient norm of the critic",
    "diag/critic_condition": "condition number of the critic loss",
}
"""Diagnostics beside the return in a chain, as in the paper's figure, and their titles."""
FEWEST_LINES = 3
TRUE, FALSE = "true", "false"
"""Values of a setting as `setting_value` writes them."""


def panels(lines: Lines, published: Collection[str] = ()) -> list[Panel]:
    """Return the panels of a task: those of all its lines together, or else those of each sweep's lines.

    `published` are methods that have a published curve. One that is called like a line's variant is drawn beside it."""
    if found := _panels(lines):
        return [_with_published(panel, lines, published) for panel in found]
    by_sweep: dict[Any, Lines] = defaultdict(dict)
    for name, runs in lines.items():
        for sweep in dict.fromkeys(run.sweep for run in runs):
            by_sweep[sweep][name] = runs
    out: dict[str, Panel] = {}
    for sweep, some in by_sweep.items():
        for panel in _panels(some):
            known = out.get(panel["title"])
            if known and known["lines"] != panel["lines"]:
                panel["title"] += f" ({sweep.name if sweep else 'no sweep'})"
            out.setdefault(panel["title"], _with_published(panel, lines, published))
    return list(out.values())


def _panels(lines: Lines) -> list[Panel]:
    """Return the panel of a chain, or those of a star. There are none where the lines are neither."""
    settings = {
        name: shared
        for name, runs in lines.items()
        if "algorithm" not in runs[0].settings and (shared := _shared(runs))
    }
    known = [set(shared) for shared in settings.values()]
    if len(settings) < FEWEST_LINES or any(names != known[0] for names in known):
        return []
    if chain := _chain(settings):
        return [_panel_of_chain(chain, lines, settings)]
    stars = [(base, star) for base in settings if (star := _star(base, settings))]
    base, star = max(stars, key=lambda found: len(found[1]), default=("", {}))
    return [_panel_of_setting(varied, [base, *names], lines) for varied, names in star.items()] if len(star) > 1 else []


def _shared(runs: list[Any]) -> Settings:
    """Return the settings that all runs of a line have in common, bookkeeping left out."""
    names = [name for name in runs[0].settings if name not in BOOKKEEPING]
    values = {name: {setting_value(run, name) for run in runs} for name in names}
    return {name: next(iter(found)) for name, found in values.items() if len(found) == 1}


def _changed(before: Settings, after: Settings) -> set[str]:
    return {name for name, value in after.items() if before[name] != value}


def _chain(settings: dict[str, Settings]) -> list[str]:
    """Return all lines in an order in which each changes further settings, and keeps what was changed before.

    The order is the one that switches components on. It is empty if there is none. Three lines are a chain only if both
    steps switch something on. Otherwise the line in the middle may as well be the base of the other two."""
    for first in settings:
        changed = {name: _changed(settings[first], values) for name, values in settings.items()}
        order = sorted(settings, key=lambda name: len(changed[name]))
        steps = list(itertools.pairwise(order))
        if all(
            changed[before] < changed[after] and not changed[before] & _changed(settings[before], settings[after])
            for before, after in steps
        ):
            order = order[::-1] if _switched_on(settings, order[0], order[-1]) < 0 else order
            pairs = itertools.pairwise(order)
            builds = all(_switched_on(settings, before, after) > 0 for before, after in pairs)
            return order if len(order) > FEWEST_LINES or builds else []
    return []


def _switched_on(settings: dict[str, Settings], before: str, after: str) -> int:
    """Return how many more settings are switched on than off from one line to the other."""
    changes = [(settings[before][name], value) for name, value in settings[after].items()]
    return changes.count((FALSE, TRUE)) - changes.count((TRUE, FALSE))


def _star(base: str, settings: dict[str, Settings]) -> dict[tuple[str, ...], list[str]]:
    """Return the other lines by the settings in which they differ from the base; empty unless these are separate."""
    out: dict[tuple[str, ...], list[str]] = {}
    for name, values in settings.items():
        if varied := tuple(key for key, value in values.items() if settings[base][key] != value):
            out.setdefault(varied, []).append(name)
    named = [key for varied in out for key in varied]
    return out if len(named) == len(set(named)) else {}


def _panel_of_chain(order: list[str], lines: Lines, settings: dict[str, Settings]) -> Panel:
    steps = []
    for before, after in itertools.pairwise(order):
        values, changed = lines[after][0].settings, _changed(settings[before], settings[after])
        steps.append([after, *(spell(name, values[name]) for name in values if name in changed)])
    return {
        "title": f"{order[0]} to {order[-1]}, step by step",
        "steps": steps,
        "chain": True,
        "columns": CHAIN_COLUMNS,
        "lines": [[name, name] for name in order],
    }


def _panel_of_setting(varied: tuple[str, ...], names: list[str], lines: Lines) -> Panel:
    ordered = sorted(names, key=lambda name: [_order(lines[name][0].settings[key]) for key in varied])
    labels = [[name, _label(varied, lines[name][0].settings)] for name in ordered]
    title = ", ".join(flag(name) for name in varied)
    return {"title": title, "steps": [], "chain": False, "columns": {}, "lines": labels}


def _with_published(panel: Panel, lines: Lines, published: Collection[str]) -> Panel:
    """Return the panel with the published curves of its variants."""
    beside = []
    for name, label in panel["lines"]:
        variants = dict.fromkeys((name, *(run.variant for run in lines[name])))
        beside += [[published_name(each), f"{label} (published)", name] for each in variants if each in published]
    return panel | {"lines": [*panel["lines"], *beside]}


def _label(varied: tuple[str, ...], settings: dict[str, Any]) -> str:
    """Write the values of the settings that the panel's title names."""
    values = [(name, settings.get(name, ABSENT)) for name in varied]
    return ", ".join(spell(name, value) if isinstance(value, bool) else spell_number(value) for name, value in values)


def _order(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return (not number, float(value) if number else 0.0, str(value))
