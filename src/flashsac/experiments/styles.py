"""How lines look: the same in a picture and on the page, for readers with any kind of colour vision."""

from __future__ import annotations

import dataclasses

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
"""Okabe and Ito's colours that show on white and on black, without yellow; grey takes the place of black."""
DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot")
"""Plotly's names. Colours and dashes have different periods, so that 42 lines differ from each other."""
MARKERS = ("circle", "square", "diamond", "triangle-up", "x", "star")
"""Plotly's names of the points on published curves."""
MATPLOTLIB = {
    "solid": "-",
    "dash": "--",
    "dashdot": "-.",
    "dot": ":",
    "longdash": (0, (9, 3)),
    "longdashdot": (0, (9, 3, 2, 3)),
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "x": "X",
    "star": "*",
}
"""The same dashes and markers for matplotlib."""


@dataclasses.dataclass(frozen=True)
class Style:
    """Colour and dash of a line, and the marker of its points if it was published."""

    colour: str
    dash: str
    marker: str


def style(index: int) -> Style:
    """Return the look of the line with this place in the legend."""
    return Style(COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)], MARKERS[index % len(MARKERS)])
