"""Pictures: curves against steps and against time, and densities of coverage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from flashsac.experiments.curves import AXES, Band, Curve, band, metric_of
from flashsac.sims.catalog import suite_of
from flashsac.system.files import replacing


def draw(path: Path, task: str, named: dict[str, list[Curve]], others: dict[str, Band]) -> Path:
    """Draw the curves of one task, each name in its own colour, and published ones beside them."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    suite = suite_of(task)
    repeat = suite.action_repeat if suite else 1
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True, constrained_layout=True)
    for panel, (axis, label) in zip(panels, AXES.items(), strict=True):
        end = max(_draw_runs(panel, axis, name, curves, f"C{i}") for i, (name, curves) in enumerate(named.items()))
        lines = {method: line for method, line in sorted(others.items()) if len(line.x) > 1 and axis == "step"}
        if lines:
            _draw_published(panel, lines, end, len(named))
        repeated = axis == "step" and repeat > 1
        panel.set_xlabel(f"transitions (every action is done {repeat} times)" if repeated else label)
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(metric_of(task).label)
    # Below the panels: a label that names settings is long, and must not cover a curve.
    handles, labels = panels[0].get_legend_handles_labels()
    columns = 3 if max(map(len, labels)) < 45 else 1
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    averaged = others or any(band(curves, "step").has_interval for curves in named.values())
    figure.suptitle(f"{task}: mean over seeds, 95% bootstrap interval" if averaged else task)
    with replacing(path, in_place=True) as temporary:
        figure.savefig(temporary, dpi=110)
    plt.close(figure)
    return path


def _draw_runs(panel: Any, axis: str, name: str, curves: list[Curve], colour: str) -> float:
    """Draw the runs of one name, and return where they end. With too few seeds for an interval, only each run's
    curve."""
    line = band(curves, axis)
    label = f"{name}, {line.seeds} seed{'s' if line.seeds > 1 else ''}"
    averaged = line.has_interval and len(line.x)
    for i, curve in enumerate(curves):
        style: dict[str, Any] = dict(alpha=0.25, linewidth=0.8) if averaged else dict(linewidth=1.0)
        if not averaged and i == 0:
            style["label"] = label
        panel.plot(getattr(curve, axis), curve.value, color=colour, **style)
    if averaged:
        panel.plot(line.x, line.mean, color=colour, linewidth=2, label=label)
        panel.fill_between(line.x, line.low, line.high, color=colour, alpha=0.2, linewidth=0)
    return max(0.0, *(x for curve in curves for x in getattr(curve, axis)[-1:]))


def _draw_published(panel: Any, lines: dict[str, Band], end: float, first_colour: int) -> None:
    """Draw published curves as far as our runs, or to their first points after the beginning."""
    right = 1.05 * max(end, min(line.x[1] for line in lines.values()))
    panel.set_xlim(-0.03 * right, right)
    for i, (method, published) in enumerate(lines.items(), start=first_colour):
        inside = published.x <= max(end, published.x[1])
        x, mean = published.x[inside], published.mean[inside]
        style: dict[str, Any] = dict(color=f"C{i}", linestyle="--", marker="o", markersize=4)
        panel.plot(x, mean, label=f"{method} (published)", **style)
        low, high = published.low[inside], published.high[inside]
        panel.fill_between(x, low, high, color=f"C{i}", alpha=0.1, linewidth=0)


def draw_coverage(path: Path, about: dict[str, Any], pairs: list[dict[str, Any]]) -> Path:
    """Draw the densities of coverage.json: a row for each pair, replay on the left and policy on the right."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.colors import LogNorm

    size = (8, 0.6 + 3.4 * len(pairs))
    figure, rows = plt.subplots(len(pairs), 2, figsize=size, squeeze=False, constrained_layout=True)
    for panels, pair in zip(rows, pairs, strict=True):
        both = np.array([pair["replay"], pair["policy"]])
        norm = LogNorm(both[both > 0].min(), both.max())
        for panel, name, label in zip(panels, ("replay", "policy"), ("replay", "final policy"), strict=True):
            density = np.array(pair[name]).T  # pcolormesh takes rows along y
            image = panel.pcolormesh(
                pair["x_edges"], pair["y_edges"], np.ma.masked_equal(density, 0), norm=norm, cmap="viridis"
            )
            share, nats = 100 * pair[f"support_{name}"], pair[f"entropy_{name}"]
            panel.set_title(f"{label}: support {share:.1f}%, entropy {nats:.2f} nats", fontsize=9)
            panel.set_xlabel(pair["x"])
            panel.set_ylabel(pair["y"])
        figure.colorbar(image, ax=list(panels), label="density")
    figure.suptitle(f"{about['task']}: {about['transitions']:,} transitions each")
    with replacing(path, in_place=True) as temporary:
        figure.savefig(temporary, dpi=110)
    plt.close(figure)
    return path
