"""PNG files by matplotlib, without a window: figures that close themselves, plain panels, legends below them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashsac.system.files import replacing

DPI = 110
LONG_LABEL = 45
"""Letters from which on a label has a row of the legend for itself."""


@contextlib.contextmanager
def picture(
    path: Path, rows: int, columns: int, size: tuple[float, float], **options: Any
) -> Iterator[tuple[Any, Any]]:
    """Give a figure and its panels (rows, columns). What is drawn in the block is then written as a whole."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(rows, columns, figsize=size, squeeze=False, constrained_layout=True, **options)
    try:
        yield figure, panels
        with replacing(path, in_place=True) as temporary:
            figure.savefig(temporary, dpi=DPI)
    finally:
        plt.close(figure)


def make_plain(panel: Any) -> None:
    """Give a panel faint lines, and take away the frame above and on the right."""
    panel.grid(alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)


def legend_below(figure: Any, panel: Any) -> None:
    """Put the legend of a panel below all of them: a label that names settings is long, and must not cover a curve."""
    handles, labels = panel.get_legend_handles_labels()
    columns = 3 if max(map(len, labels)) < LONG_LABEL else 1
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
