"""Draw docs/images/architecture.svg from the import rule in pyproject.toml. Run it after a change: a test compares
both.

Every box brings its own background, so that the picture is readable on a light page and on a dark one.
"""

from __future__ import annotations

import ast
import html
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "flashsac"
OUT = ROOT / "docs" / "images" / "architecture.svg"
WIDTH, HEIGHT, GAP, MARGIN = 570, 76, 18, 6
"""Pixels: the width of the stack of rooms, the height of a box, the space between boxes and around all of them."""
DEPLOY_WIDTH = 130
COLOURS = ("#2f6f73", "#3b6288", "#6a5a8c", "#8a5a44")
"""Foundations, algorithm and simulators, a run, what people use."""
FIRST_OF_COLOUR = ("errors", "core", "runs", "api")
STYLE = """\
text { font-family: system-ui, -apple-system, "Segoe UI", "Noto Sans", "Liberation Sans", sans-serif; fill: #fff; }
.room { font-size: 16px; font-weight: 600; }
.about { font-size: 12.5px; }
.arrow { stroke: #8a9499; stroke-width: 2; fill: none; marker-end: url(#head); }"""

HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="5" markerHeight="5" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="#8a9499"/></marker>'
)


def about(room: str) -> str:
    """Return the first sentence of a room's docstring, without code quotes."""
    file = SRC / room / "__init__.py" if (SRC / room).is_dir() else SRC / f"{room}.py"
    text = " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split())
    return text.partition(". ")[0].rstrip(".").replace("`", "")


def wrapped(text: str, most: int) -> list[str]:
    """Break a text into lines; a fourth line is cut off."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > most and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines if len(lines) <= 3 else [*lines[:2], lines[2].rstrip(",:;") + " …"]


def box(room: str, x: float, y: float, width: float, colour: str) -> str:
    """Draw one room: its name, and below it what it is for."""
    lines = wrapped(about(room), int((width - 12) / 6.4))
    middle, top = x + width / 2, y + HEIGHT / 2 - 8 * len(lines) + 4
    texts = [f'<text class="room" x="{middle:g}" y="{top:g}" text-anchor="middle">{room}</text>']
    texts += [
        f'<text class="about" x="{middle:g}" y="{top + 17 + 15 * row:g}" text-anchor="middle">{html.escape(line)}</text>'
        for row, line in enumerate(lines)
    ]
    rect = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{HEIGHT}" rx="8" fill="{colour}"/>'
    return "\n".join([rect, *texts])


def arrow(x: float, y: float, down_to: float) -> str:
    """Draw an arrow downwards: the upper room imports the lower one."""
    return f'<path class="arrow" d="M{x:g} {y:g}V{down_to - 3:g}"/>'


def text() -> str:
    """Return the picture: the command line above, the foundations below, deploy beside the rooms that may import it."""
    imports = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flashsac"]["imports"]
    groups = [group.split(", ") for group in imports["rule"].split(" → ") if group != "__main__"]
    pitch, parts, where, colour = HEIGHT + GAP, [], {}, -1
    for rank, group in enumerate(groups):
        colour += group[0] in FIRST_OF_COLOUR
        y = MARGIN + (len(groups) - 1 - rank) * pitch
        width = (WIDTH - GAP * (len(group) - 1)) / len(group)
        for place, room in enumerate(group):
            x = MARGIN + place * (width + GAP)
            parts.append(box(room, x, y, width, COLOURS[colour]))
            where[room] = (x, y, width)
        if rank:
            parts += [arrow(MARGIN + WIDTH * share, y + HEIGHT, y + pitch) for share in (0.25, 0.75)]
    whole = 2 * MARGIN + WIDTH + GAP * 2 + DEPLOY_WIDTH, 2 * MARGIN + len(groups) * pitch - GAP
    parts += _deploy(imports["deploy"], where, whole[0])
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole[0]:g} {whole[1]:g}" role="img">',
        "<title>The rooms of the package: each imports from those below it</title>",
        f"<style>\n{STYLE}\n</style>",
        f"<defs>{HEAD}</defs>",
        *parts,
        "</svg>\n",
    ])  # fmt: skip


def _deploy(knows: list[str], where: dict[str, tuple[float, float, float]], right: float) -> list[str]:
    """Draw deploy beside the stack, with an arrow to each row of rooms that it may import."""
    x = right - MARGIN - DEPLOY_WIDTH
    y = where["types"][1]
    parts = [box("deploy", x, y, DEPLOY_WIDTH, COLOURS[3])]
    rows = sorted({where[room][1] for room in knows})
    for place, row in enumerate(rows):
        start, end = x + DEPLOY_WIDTH * (place + 1) / (len(rows) + 1), MARGIN + WIDTH
        parts.append(f'<path class="arrow" d="M{start:g} {y + HEIGHT:g}V{row + HEIGHT / 2:g}H{end + 5:g}"/>')
    return parts


if __name__ == "__main__":
    OUT.write_text(text(), encoding="utf-8")
    print(f"wrote {OUT.relative_to(ROOT)}")
