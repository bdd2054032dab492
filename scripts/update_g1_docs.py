"""Write the tables of docs/g1-task.md from what the task is built of: python scripts/update_g1_docs.py"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flashsac.robots.g1 import COMMANDS, G1, OBSERVATION, PPO_ACTION_SCALE, PRIVILEGED
from flashsac.tasks.g1.randomization import RANDOMIZATION, START
from flashsac.tasks.g1.rewards import REWARDS
from flashsac.tasks.g1.terrain import TERRAIN

FILE = Path(__file__).parents[1] / "docs" / "g1-task.md"


def render(text: str) -> str:
    """The page with its tables as the code has them."""
    for name, table in TABLES.items():
        pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
        text, found = re.subn(pattern, lambda m, table=table: m[1] + table() + m[2], text, flags=re.DOTALL)
        assert found == 1, f"{FILE} needs one place for the table '{name}'"
    return text


def joints() -> str:
    rows = (
        (f"`{joint.name}`", joint.default, joint.stiffness, joint.damping, round(flashsac, 4), round(ppo, 4))
        for joint, flashsac, ppo in zip(G1.joints, G1.action_scale, PPO_ACTION_SCALE, strict=True)
    )
    head = ("joint", "default, rad", "stiffness", "damping", "rad per unit of action, FlashSAC", "PPO")
    return _table(head, rows)


def observations() -> str:
    rows = ((f"`{term.name}`", term.size, _noise(term.noise), "actor, critic") for term in OBSERVATION)
    more = ((f"`{term.name}`", term.size, _noise(term.noise), "critic") for term in PRIVILEGED)
    return _table(("term", "size", "uniform noise", "seen by"), (*rows, *more))


def rewards() -> str:
    def weight(value: float | None, sigma: float | None) -> str:
        return "-" if value is None else f"{value:g}" + (f" (σ = {sigma:g})" if sigma else "")

    rows = []
    for reward in REWARDS:
        flashsac, ppo = reward.sigma or (None, None)
        name, formula = f"`{reward.name}`", f"`{reward.formula}`"
        rows.append((name, formula, weight(reward.flashsac, flashsac), weight(reward.ppo, ppo)))
    return _table(("reward", "expression", "FlashSAC", "PPO"), rows)


def ranges(settings: Any) -> str:
    """Every field of a dataclass with the text below it."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(type(settings)))).body
    assert isinstance(tree, ast.ClassDef)
    texts = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            assert isinstance(field.target, ast.Name)
            texts[field.target.id] = ast.literal_eval(below.value)
    rows = (
        (f"`{field.name}`", _value(getattr(settings, field.name)), texts[field.name])
        for field in dataclasses.fields(settings)
    )
    return _table(("setting", "value", "what it is"), rows)


def _noise(width: float) -> str:
    return f"±{width:g}" if width else "-"


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        if isinstance(value[0], tuple):
            return ", ".join(map(_value, value))
        return f"{value[0]:.3g} to {value[1]:.3g}" if value[0] != value[1] else f"{value[0]:.3g}"
    return f"{value:g}"


def _table(head: tuple[str, ...], rows: Iterable[tuple]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


TABLES = {
    "joints": joints,
    "observations": observations,
    "rewards": rewards,
    "randomization": lambda: ranges(RANDOMIZATION),
    "start": lambda: ranges(START),
    "commands": lambda: ranges(COMMANDS),
    "terrain": lambda: ranges(TERRAIN),
}

if __name__ == "__main__":
    FILE.write_text(render(FILE.read_text()))
