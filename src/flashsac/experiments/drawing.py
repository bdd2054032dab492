"""Pictures: curves against steps and against time, and densities of coverage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from flashsac.experiments.comparison import published_name
from flashsac.experiments.curves import AXES, Band, Curve, axis_labels, band, crop_published, metric_of
from flashsac.experiments.pictures import legend_below, make_plain, picture
from flashsac.experiments.styles import MATPLOTLIB, Style


def draw(
    path: Path, task: str, named: dict[str, list[Curve]], others: dict[str, Band], styles: dict[str, Style]
) -> Path:
    """Draw the curves of one task, each name in its own colour, and published ones beside them."""
    with picture(path, 1, 2, (11, 4.5), sharey=True) as (figure, grid):
        panels = grid[0]
        for panel, axis in zip(panels, AXES, strict=True):
            end = max(_draw_runs(panel, axis, name, curves, styles[name]) for name, curves in named.items())
            if others and axis == "step":
                _draw_published(panel, others, end, styles)
            panel.set_xlabel(axis_labels(task)[axis])
            make_plain(panel)
        panels[0].set_ylabel(metric_of(task).label)
        legend_below(figure, panels[0])
        averaged = others or any(band(curves, "step").has_interval for curves in named.values())
        figure.suptitle(f"{task}: mean over seeds, 95% bootstrap interval" if averaged else task)
    return path


def _draw_runs(panel: Any, axis: str, name: str, curves: list[Curve], look: Style) -> float:
    """Draw the runs of one name, and return where they end. With too few seeds for an interval, only each run's
    curve."""
    line = band(curves, axis)
    dash = MATPLOTLIB[look.dash]
    label = f"{name}, {line.seeds} seed{'s' if line.seeds > 1 else ''}"
    averaged = line.has_interval and len(line.x)
    for i, curve in enumerate(curves):
        style: dict[str, Any] = dict(alpha=0.25, linewidth=0.8) if averaged else dict(linewidth=1.0, linestyle=dash)
        if not averaged and i == 0:
            style["label"] = label
        panel.plot(getattr(curve, axis), curve.value, color=look.colour, **style)
    if averaged:
        panel.plot(line.x, line.mean, color=look.colour, linestyle=dash, linewidth=2, label=label)
        panel.fill_between(line.x, line.low, line.high, color=look.colour, alpha=0.2, linewidth=0)
    return max(0.0, *(x for curve in curves for x in getattr(curve, axis)[-1:]))


def _draw_published(panel: Any, others: dict[str, Band], end: float, styles: dict[str, Style]) -> None:
    """Draw published curves as far as our runs."""
    lines, right = crop_published(others, end)
    panel.set_xlim(-0.03 * right, right)
    for method, line in lines.items():
        look = styles[published_name(method)]
        points: dict[str, Any] = dict(color=look.colour, linestyle="--", marker=MATPLOTLIB[look.marker], markersize=4)
        panel.plot(line.x, line.mean, label=published_name(method), **points)
        panel.fill_between(line.x, line.low, line.high, color=look.colour, alpha=0.1, linewidth=0)


def draw_coverage(path: Path, about: dict[str, Any], pairs: list[dict[str, Any]]) -> Path:
    """Draw the densities of coverage.json: a row for each pair, replay on the left and policy on the right."""
    with picture(path, len(pairs), 2, (8, 0.6 + 3.4 * len(pairs))) as (figure, rows):
        for panels, pair in zip(rows, pairs, strict=True):
            image = _draw_pair(panels, pair)
            figure.colorbar(image, ax=list(panels), label="density")
        figure.suptitle(f"{about['task']}: {about['transitions']:,} transitions each")
    return path


def _draw_pair(panels: Any, pair: dict[str, Any]) -> Any:
    """Draw both densities of a pair on one scale of colours, and return one of the images."""
    from matplotlib.colors import LogNorm

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
    return image
