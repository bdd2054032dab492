"""Write tests/data/rliable.json: scores, and what the package rliable makes of them. A test compares ours with it.

    python -m venv /tmp/rliable && /tmp/rliable/bin/pip install rliable "pandas<3"
    /tmp/rliable/bin/python scripts/rliable_oracle.py

rliable has no wheel, so it is not among the project's pinned packages. This script needs nothing of ours.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import numpy as np
from rliable import library, metrics

OUT = Path(__file__).resolve().parents[1] / "tests" / "data" / "rliable.json"
RESAMPLES = 200
SEED = 7
THRESHOLDS = [0.0, 0.25, 0.5, 0.75, 1.0]
SHAPES = {"odd": (3, 2), "quarters": (4, 4), "paper": (5, 10), "two": (2, 3), "one": (1, 7)}
"""Runs and tasks. With `odd`, a quarter of the runs is no whole number."""


def aggregates(scores: np.ndarray) -> np.ndarray:
    """Return IQM, mean, median and optimality gap."""
    parts = metrics.aggregate_iqm, metrics.aggregate_mean, metrics.aggregate_median, metrics.aggregate_optimality_gap
    return np.array([part(scores) for part in parts])


def improvement(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the probability of improvement, as rliable's interval wants it."""
    return np.array([metrics.probability_of_improvement(scores, others)])


def case(name: str, scores: np.ndarray, others: np.ndarray) -> dict[str, Any]:
    """Return one set of scores with all of rliable's results."""
    np.random.seed(SEED)  # rliable draws from the global generator, whatever generator it is given
    points, intervals = library.get_interval_estimates({name: scores}, aggregates, reps=RESAMPLES)
    np.random.seed(SEED)
    pair, pair_interval = library.get_interval_estimates({name: (scores, others)}, improvement, reps=RESAMPLES)
    np.random.seed(SEED)
    profile, _ = library.create_performance_profile({name: scores}, THRESHOLDS, reps=2)
    return {
        "scores": scores.tolist(),
        "others": others.tolist(),
        "aggregates": points[name].tolist(),
        "intervals": intervals[name].tolist(),
        "improvement": pair[name].tolist(),
        "improvement_interval": pair_interval[name].ravel().tolist(),
        "profile": profile[name].tolist(),
    }


def main() -> None:
    random = np.random.default_rng(0)
    cases = {}
    for name, (runs, tasks) in SHAPES.items():
        # Rounded, so that some runs are equal; some beyond 1, some below 0.
        scores = np.round(random.normal(0.6, 0.4, (runs, tasks)), 1)
        cases[name] = case(name, scores, np.round(random.normal(0.4, 0.4, (runs + 1, tasks)), 1))
    versions = {package: importlib.metadata.version(package) for package in ("rliable", "arch", "numpy", "scipy")}
    fixed = {"versions": versions, "seed": SEED, "resamples": RESAMPLES, "thresholds": THRESHOLDS}
    OUT.write_text(json.dumps(fixed | {"cases": cases}, indent=1) + "\n")
    print(f"wrote {OUT.name}")


if __name__ == "__main__":
    main()
