"""The coverage of a run: joint densities of two numbers, in its replay and under its final policy.

docs/experiments/diagnostics.md defines the figures of merit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open

from flashsac.core.n_step import INVALID
from flashsac.errors import BadSimulation, CheckpointError, FlashSACError, UsageError
from flashsac.experiments.drawing import draw_coverage
from flashsac.policies.evaluation import MAX_PARALLEL
from flashsac.policies.find import PolicyOnTask
from flashsac.runs import layout
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.directory import read_config
from flashsac.runs.seal import MALFORMED
from flashsac.sims.base import no_exit
from flashsac.sims.make import make_env
from flashsac.sims.user_env import more_like
from flashsac.system.files import write_atomic
from flashsac.training.start_from import find_parent

MOST_BINS, FEWEST_BINS = 50, 10
"""Bins along each axis."""
PER_BIN = 40
"""Transitions in a bin on average, where the limits of the bins allow it. With fewer, chance empties bins."""
MASS = 0.95
"""The share of the transitions that the support holds."""
EDGE = 0.001
"""The share of the pooled observations that may lie beyond each end of an axis, so that outliers do not set it."""
STEPS_EACH = 1000
"""Fewer environments are simulated rather than fewer steps of each: about an episode."""
DEFAULT_PAIRS = 3

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Column:
    """One number of the observation or of the action."""

    kind: str
    """obs or action."""
    index: int

    def __str__(self) -> str:
        return f"{self.kind} {self.index}"


@dataclasses.dataclass(frozen=True)
class Pair:
    """The densities of one pair of columns on the same axes. `x_edges` and `y_edges` are those of the bins."""

    x: Column
    y: Column
    x_edges: np.ndarray
    y_edges: np.ndarray
    replay: np.ndarray
    """Density by x and y, (bins, bins)."""
    policy: np.ndarray

    def as_json(self) -> dict[str, Any]:
        """What coverage.json holds of the pair, with the figures of merit."""
        out: dict[str, Any] = {"x": str(self.x), "y": str(self.y)}
        out |= {name: getattr(self, name).tolist() for name in ("x_edges", "y_edges", "replay", "policy")}
        for name in ("replay", "policy"):
            mass = self.mass(getattr(self, name))
            out |= {f"support_{name}": support(mass), f"entropy_{name}": entropy(mass)}
        return out

    def mass(self, density: np.ndarray) -> np.ndarray:
        """The share of the transitions in each bin."""
        return density * np.outer(np.diff(self.x_edges), np.diff(self.y_edges))


class ReplayReader:
    """The replay in the newest whole checkpoint of a run. Only files are read, and none is changed."""

    def __init__(self, run: Path):
        self.run = run
        store = CheckpointStore(run, read_config(run)[0])
        newest = store.folder / layout.step_folder(find_parent(run, "networks and replay").step)
        self._folder, self.checkpoint = store.pieces_folder, store.read(newest, forgiving=True)
        if not self.checkpoint.pieces:
            raise CheckpointError(f"{newest} has no whole piece of the replay, so there is no coverage to measure.")

    @property
    def columns(self) -> dict[str, int]:
        """How many numbers there are of each kind. Images are none."""
        spec = self.checkpoint.state["spec"]
        return {"obs": int(spec["obs"].get("actor", 0)), "action": int(spec["action_dim"])}

    def check(self, column: Column) -> None:
        """Raise unless the replay has this column."""
        count = self.columns[column.kind]
        if not count:
            raise FlashSACError(
                f"{self.run} sees only images: pixels have no coverage of their own. Compare actions: --x action:0 --y action:1"
            )
        if column.index >= count:
            raise FlashSACError(
                f"{column.kind}:{column.index}: {self.run} has {count} numbers in its {column.kind}, {column.kind}:0 to "
                f"{column.kind}:{count - 1}."
            )

    def read(self, columns: Sequence[Column], newest_piece: bool = False) -> np.ndarray:
        """The transitions that can be sampled, (transitions, columns); with `newest_piece` only those of one file."""
        state = self.checkpoint.state["agent"]["replay"]
        pieces = self.checkpoint.pieces[-1:] if newest_piece else self.checkpoint.pieces
        head, tail = state["head"], max(state["tail"], pieces[0]["first"])
        out = np.full(
            (max(0, head - tail), self.checkpoint.state["spec"]["num_envs"], len(columns)), np.nan, np.float32
        )
        try:
            for piece in pieces:  # where two hold the same step, the later one counts
                skipped = max(0, tail - piece["first"])
                rows = _read_piece(self._folder / piece["file"], columns)[skipped:]
                first = piece["first"] + skipped - tail
                out[first : first + len(rows)] = rows
        except (SafetensorError, OSError, *MALFORMED) as error:
            raise CheckpointError(f"the replay of {self.run} cannot be read ({error!s:.200}).") from error
        for first, stop in state.get("holes", []):
            out[max(0, first - tail) : max(0, stop - tail)] = np.nan
        flat = out.reshape(-1, len(columns))
        return flat[np.isfinite(flat).all(1)]


def _read_piece(file: Path, columns: Sequence[Column]) -> np.ndarray:
    """The columns of one piece, (steps, envs, columns); NaN where the outcome of a step is unknown."""
    with safe_open(file, "pt") as data:
        parts = {"obs": "obs.actor", "action": "action"}
        tensors = {kind: data.get_tensor(parts[kind]) for kind in {column.kind for column in columns}}
        picked = torch.stack([tensors[column.kind][..., column.index].float() for column in columns], -1)
        return picked.masked_fill((data.get_tensor("flags") & INVALID != 0)[..., None], math.nan).numpy()


def parse_column(text: str) -> Column:
    """obs:3 or action:0."""
    match = re.fullmatch(r"(obs|action):(\d{1,9})", text)
    if match is None:
        raise UsageError(f"{text:.60} is no column: write obs:3 for the observation's fourth number, or action:0.")
    return Column(match[1], int(match[2]))


def default_pairs(reader: ReplayReader) -> list[tuple[Column, Column]]:
    """The observations of the largest standard deviation, each against an action of the largest; without observations,
    actions against each other."""
    ranked = {}
    for kind, count in reader.columns.items():
        columns = [Column(kind, index) for index in range(count)]
        spread = reader.read(columns, newest_piece=True).std(0) if columns else []
        ranked[kind] = [columns[i] for i in np.argsort(spread, kind="stable")[::-1]]
    actions = ranked["action"]
    left = ranked["obs"][:DEFAULT_PAIRS] or actions[:-1][:DEFAULT_PAIRS] or actions
    right = actions if ranked["obs"] else actions[1:] or actions
    return [(x, right[i % len(right)]) for i, x in enumerate(left)]


def roll_out(found: PolicyOnTask, columns: Sequence[Column], transitions: int, num_envs: int, seed: int) -> np.ndarray:
    """Transitions of the stochastic policy, (transitions, columns): what an on-policy method would collect."""
    num_envs = max(1, min(max(num_envs, MAX_PARALLEL), transitions // STEPS_EACH))
    config = dataclasses.replace(found.env, num_envs=num_envs, overlap=False)
    found.policy.require_finite()
    with no_exit("the rollout"), contextlib.closing(make_env(more_like(found.task), config)) as env:
        found.policy.check_fits(env.spec)
        generator, rows, left = torch.Generator().manual_seed(seed), [], transitions
        obs = env.reset(seed)
        for _ in range(2 * math.ceil(transitions / env.spec.num_envs)):
            action = found.policy.sample(obs, generator)
            seen = {"action": action} | ({"obs": obs["actor"]} if "actor" in obs else {})
            step = env.step(action)
            picked = torch.stack([seen[column.kind][:, column.index].cpu() for column in columns], -1)
            rows.append(picked[step.valid.cpu()])
            obs, left = step.obs, left - len(rows[-1])
            if left <= 0:
                break
    found_rows = torch.cat(rows)[:transitions].numpy()
    if not len(found_rows):
        raise BadSimulation(f"every step of {found.task} broke the simulator, so there is nothing to compare.")
    return found_rows


def densities(x: Column, y: Column, replay: np.ndarray, policy: np.ndarray) -> Pair:
    """Both densities on the same axes. replay, policy: (transitions, 2)."""
    bins = min(MOST_BINS, max(FEWEST_BINS, round(math.sqrt(len(replay) / PER_BIN))))
    x_edges, y_edges = (
        _edges(column, np.concatenate([replay[:, axis], policy[:, axis]]), bins) for axis, column in enumerate((x, y))
    )
    both = (
        np.histogram2d(rows[:, 0], rows[:, 1], bins=[x_edges, y_edges], density=True)[0] for rows in (replay, policy)
    )
    return Pair(x, y, x_edges, y_edges, *(np.nan_to_num(density) for density in both))


def _edges(column: Column, values: np.ndarray, bins: int) -> np.ndarray:
    """Edges of the bins. Actions lie in [-1, 1]."""
    low, high = (-1.0, 1.0) if column.kind == "action" else np.quantile(values.astype(float), (EDGE, 1 - EDGE))
    middle, half = (low + high) / 2, (high - low) / 2
    half = half if half > 1e-6 * max(1.0, abs(middle)) else 0.5  # a number that never changes
    return np.linspace(middle - half, middle + half, bins + 1)


def support(mass: np.ndarray) -> float:
    """The share of the bins that hold the densest 95% of the transitions."""
    densest = np.sort(mass.ravel())[::-1].cumsum()
    return (1 + int((densest < MASS * densest[-1] * (1 - 1e-12)).sum())) / mass.size if densest[-1] > 0 else 0.0


def entropy(mass: np.ndarray) -> float:
    """Entropy over the bins, in nats."""
    share = mass[mass > 0] / mass.sum()
    return float(-(share * np.log(share)).sum()) + 0.0


def coverage(
    run: Path,
    found: PolicyOnTask,
    pairs: Sequence[tuple[Column, Column]],
    out: Path,
    *,
    transitions: int | None = None,
    seed: int = 0,
    say: Say = lambda line: None,
) -> list[Path]:
    """Compare the replay with as many transitions of the policy, and write coverage.json and coverage.png."""
    reader = ReplayReader(run)
    chosen = list(pairs) or default_pairs(reader)
    columns = list(dict.fromkeys(column for pair in chosen for column in pair))
    for column in columns:
        reader.check(column)
    replay = reader.read(columns)
    if not len(replay):
        raise CheckpointError(f"the replay of {run} holds no whole transition.")
    if transitions is not None and transitions < len(replay):
        replay = replay[np.random.default_rng(seed).choice(len(replay), transitions, replace=False)]
    say(f"rolling out {len(replay):,} transitions of the policy ...")
    policy = roll_out(found, columns, len(replay), found.env.num_envs, seed)
    replay = replay[np.random.default_rng(seed).permutation(len(replay))[: len(policy)]]
    at = {column: index for index, column in enumerate(columns)}
    measured = [densities(x, y, *(rows[:, [at[x], at[y]]] for rows in (replay, policy))) for x, y in chosen]
    out.mkdir(parents=True, exist_ok=True)
    content = {"task": str(found), "run": str(run), "transitions": len(policy)}
    file, picture = out / "coverage.json", out / "coverage.png"
    write_atomic(file, json.dumps(content | {"pairs": [pair.as_json() for pair in measured]}, allow_nan=False))
    draw_coverage(picture, content, [pair.as_json() for pair in measured])
    for pair in measured:
        say(_line(pair.as_json()))
    return [file, picture]


def _line(pair: dict[str, Any]) -> str:
    numbers = (f"{name} {100 * pair[f'support_{name}']:.1f}%" for name in ("replay", "policy"))
    nats = (f"{name} {pair[f'entropy_{name}']:.2f}" for name in ("replay", "policy"))
    return f"{pair['x']} and {pair['y']}: support {', '.join(numbers)}; entropy {', '.join(nats)} nats"
