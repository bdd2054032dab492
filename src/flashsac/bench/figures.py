"""Measured figures: a table for people, a CSV to compare with later."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from flashsac.system.files import replacing


class Row(NamedTuple):
    """One figure."""

    part: str
    case: str
    what: str
    value: float
    unit: str


def table(rows: list[Row], earlier: list[Row] | None = None) -> str:
    """Format the figures for people. With `earlier` figures, a last column shows the ratio to them."""
    before = {row[:3]: row.value for row in earlier or []}
    lines, widths = [], [max((len(row[:3][i]) for row in rows), default=0) for i in range(3)]
    for row in rows:
        old = before.get(row[:3])
        ratio = f"   {row.value / old:6.2f} of {old:,.4g}" if old else ""
        names = "  ".join(text.ljust(width) for text, width in zip(row[:3], widths, strict=True))
        lines.append(f"{names}  {row.value:>11,.3f} {row.unit:<13}{ratio}".rstrip())
    return "\n".join(lines)


def caveats(rows: list[Row], earlier: list[Row] | None) -> list[str]:
    """What to know before believing the ratios."""
    if earlier is None:
        return []
    machines = [{f"{row.case}; {row.what}" for row in some if row.part == "machine"} for some in (rows, earlier)]
    before = {row[:3] for row in earlier}
    lone = [row for row in rows if row.part != "machine" and row[:3] not in before]
    out = []
    if machines[0] != machines[1]:
        named = ", ".join(machines[1]) or "a machine that is not named"
        out.append(f"the earlier figures are of another machine, number of threads, or version: {named}")
    if lone:
        out.append(
            f"{len(lone)} figures have no ratio, because the earlier ones do not have them ({lone[0].case}, for example)"
        )
    return out


def write_csv(rows: list[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, in_place=True) as temporary, temporary.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows((*row[:3], f"{row.value:.6g}", row.unit) for row in rows)


def read_csv(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        return [Row(r["part"], r["case"], r["what"], float(r["value"]), r["unit"]) for r in csv.DictReader(file)]
