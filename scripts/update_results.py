"""Write README's table of results from the CSVs in benchmarks/results: python scripts/update_results.py

benchmarks/results/table.csv lists the curves to show and quotes the published means (published_results of the paper:
group, task and step). Every number of ours comes from a curve that `flashsac report` wrote.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
HEAD = "| task | settings, CPU cores | steps | time | our return | published | curve |\n|---|---|---|---|---|---|---|"


def render(text: str) -> str:
    """Return the document with its table as the CSVs have it."""
    written, found = re.subn(
        r"(<!-- results -->\n).*?(\n<!-- end -->)", lambda match: match[1] + table() + match[2], text, flags=re.DOTALL
    )
    assert found == 1, "the document needs one place for the results"
    return written


def table() -> str:
    with (RESULTS / "table.csv").open(newline="") as file:
        return "\n".join([HEAD, *map(row, csv.DictReader(file))])


def row(entry: dict[str, str]) -> str:
    """Return the line of one curve: its last point, over all its seeds."""
    with (RESULTS / entry["curve"]).open(newline="") as file:
        points = [point for point in csv.DictReader(file) if point["name"] == "flashsac"]
    last = [point for point in points if (point["kind"], point["axis"]) == ("mean", "step")][-1]
    seconds = max(float(point["x"]) for point in points if point["axis"] == "seconds")
    seeds = int(last["seeds"])
    ours = _number(float(last["value"]))
    if seeds > 1 and last["ci_low"]:  # fewer than three seeds have no interval
        ours += f" ({_number(float(last['ci_low']))} to {_number(float(last['ci_high']))}, {seeds} seeds)"
    published = f"{entry['published']} at {_steps(float(entry['published_steps']))}" if entry["published"] else "-"
    task = entry["what"] + (f" ({entry['note']})" if entry["note"] else "")
    setting = f"{entry['settings']}, {entry['cores']} × {entry['precision']}"
    curve = f"[curve](benchmarks/results/{Path(entry['curve']).with_suffix('.png')})"
    cells = (task, setting, _steps(float(last["x"])), _time(seconds), ours, published, curve)
    return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _steps(value: float) -> str:
    return f"{value / 1e6:.1f}M" if value >= 1e6 else f"{value / 1e3:.0f}k"


def _time(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


if __name__ == "__main__":
    README.write_text(render(README.read_text()))
