"""Write docs/reference/cli.md from the --help of every command. Run it after a change of a setting: a test compares
both."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from flashsac.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "reference" / "cli.md"
HEAD = """\
# Command line

<!-- Written by scripts/cli_reference.py; do not edit. -->

This page is generated from `flashsac COMMAND --help`. Numbers may be written short: `1e6`, `100k`, `2.5M`.

"""
OPTIONAL = re.compile(r"\{None\}\|(?:\{(.*)\}$)?|None,(?=True)")
"""What tyro writes for a value that may be left out."""


class Group:
    """One box of the help: its title, what it says of itself, and its rows of option and meaning."""

    def __init__(self, title: str):
        self.title, self.about = title, ""
        self.rows: list[list[str]] = []


def help_of(command: str) -> str:
    """Return the help of a command, as a terminal of 100 columns shows it."""
    environment = os.environ | {"COLUMNS": "100", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}
    asked = [sys.executable, "-m", "flashsac", command, "--help"]
    return subprocess.run(asked, env=environment, capture_output=True, text=True, check=True, encoding="utf-8").stdout


def groups_of(help_text: str) -> list[Group]:
    """Read the boxes that tyro draws."""
    groups: list[Group] = []
    for line in help_text.splitlines():
        if title := re.match(r"╭─ (.+?) ─*╮", line):
            groups.append(Group(title[1]))
        elif line.startswith("│ ─"):  # what stood above this line were no options
            groups[-1].about = " ".join(" ".join(row).strip() for row in groups[-1].rows)
            groups[-1].rows = []
        elif line.startswith("│"):
            inner = line[2:-1].rstrip()
            if inner.startswith(" "):
                groups[-1].rows[-1][1] += " " + inner.strip()
            else:
                name, _, meaning = inner.partition("  ")
                groups[-1].rows.append([name, meaning.strip()])
    return groups


def table(command: str, group: Group) -> str:
    """Draw one box as a table."""
    positional = group.title == "positional arguments"
    lines = [f"| {'Argument' if positional else 'Option'} | Meaning | Default |", "|---|---|---|"]
    for name, meaning in group.rows:
        if name.startswith("-h"):
            continue
        value = re.search(r"\s*\((required|default: ([^()]*))\)$", meaning)
        default = "" if value is None else value[2] if value[2] is not None else "required"
        shown = default if default in ("", "required") else "" if default == "None" else f"`{default}`"
        lines.append(
            f"| {_option(name)} | {meaning[: value.start()] if value else meaning} | {shown} |".replace("  ", " ")
        )
    heading = "" if positional or group.title == "options" else f"### {command}: {group.title}\n\n"
    about = f"{group.about}\n\n" if group.about else ""
    return heading + about + "\n".join(lines) + "\n"


def _option(name: str) -> str:
    return f"`{OPTIONAL.sub(lambda match: match[1] or '', name)}`"


def section(command: str) -> str:
    """Describe one command."""
    text = help_of(command)
    usage, _, rest = text.partition("\n\n")
    usage = " ".join(usage.removeprefix("usage: ").split())
    parts = [f"## flashsac {command}\n", f"```text\n{OPTIONAL.sub(lambda match: match[1] or '', usage)}\n```\n"]
    if groups := groups_of(rest):
        about = textwrap.fill(" ".join(rest.partition("╭")[0].split()), 120)
        parts += [about + "\n", *(table(command, group) for group in groups)]
    else:
        parts.append(f"```text\n{rest.strip()}\n```\n")
    return "\n".join(parts)


def text() -> str:
    """Return the whole page."""
    with ThreadPoolExecutor(2) as pool:
        return HEAD + "\n".join(pool.map(section, COMMANDS))


if __name__ == "__main__":
    OUT.write_text(text(), encoding="utf-8")
    print(f"wrote {OUT.relative_to(ROOT)}")
