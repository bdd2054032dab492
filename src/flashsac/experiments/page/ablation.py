"""Panels of an ablation: which lines belong into one, because they differ in the same setting."""

from __future__ import annotations

from typing import Any

from flashsac.experiments.grouping import ABSENT, BOOKKEEPING, setting_value, spell
from flashsac.experiments.page.figures import Lines
from flashsac.system.limits import flag

Settings = dict[str, str]


def panels(lines: Lines) -> list[dict[str, Any]]:
    """Return a panel for each setting that was varied alone: its title, and the names of its lines by their labels.

    The base is the line that all others differ from in separate settings. Without such a base there are no panels:
    the figure of the task has all lines already."""
    settings = {name: shared for name, runs in lines.items() if (shared := _shared(runs))}
    known = [set(shared) for shared in settings.values()]
    if len(settings) < 3 or any(names != known[0] for names in known):
        return []
    stars = [(base, star) for base in settings if (star := _star(base, settings))]
    if not stars:
        return []
    base, star = max(stars, key=lambda found: len(found[1]))
    if len(star) < 2:
        return []
    out = []
    for varied, names in star.items():
        ordered = sorted([base, *names], key=lambda name: [_order(lines[name][0].settings[key]) for key in varied])
        out.append(
            {
                "title": ", ".join(flag(name) for name in varied),
                "labels": {name: _label(varied, lines[name][0].settings) for name in ordered},
            }
        )
    return out


def _shared(runs: list[Any]) -> Settings:
    """Return the settings that all runs of a line have in common, bookkeeping left out."""
    names = [name for name in runs[0].settings if name not in BOOKKEEPING]
    values = {name: {setting_value(run, name) for run in runs} for name in names}
    return {name: next(iter(found)) for name, found in values.items() if len(found) == 1}


def _star(base: str, settings: dict[str, Settings]) -> dict[tuple[str, ...], list[str]]:
    """Return the other lines by the settings in which they differ from the base; empty unless these are separate."""
    out: dict[tuple[str, ...], list[str]] = {}
    for name, values in settings.items():
        if varied := tuple(key for key, value in values.items() if settings[base][key] != value):
            out.setdefault(varied, []).append(name)
    named = [key for varied in out for key in varied]
    return out if len(named) == len(set(named)) else {}


def _label(varied: tuple[str, ...], settings: dict[str, Any]) -> str:
    values = [settings.get(name, ABSENT) for name in varied]
    if len(values) == 1 and not isinstance(values[0], bool):
        return f"{values[0]:g}" if isinstance(values[0], float) else str(values[0])  # the panel's title names it
    return ", ".join(spell(name, value) for name, value in zip(varied, values, strict=True))


def _order(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return (not number, float(value) if number else 0.0, str(value))
