"""Train one healthy and two sick runs of Pendulum, and draw their metrics side by side (docs/tutorials/metrics.md).

OMP_NUM_THREADS=1 python benchmarks/healthy_and_sick.py          # trains, then draws: under five minutes on one core
OMP_NUM_THREADS=1 python benchmarks/healthy_and_sick.py --draw   # draws what is in results/healthy-and-sick
"""

from __future__ import annotations

import csv
import sys
import tempfile
from pathlib import Path

import gymnasium

import flashsac

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "healthy-and-sick"
PICTURE = ROOT / "docs" / "images" / "healthy-and-sick.png"
COLUMNS = (
    "step return eval_return critic_loss q reward entropy temperature action_std reward_scale invalid learning_rate"
).split()
PANELS = {
    "eval_return": "eval_return",
    "critic_loss": "critic_loss (nats)",
    "q": "q (scaled reward)",
    "entropy": "entropy (nats)",
    "temperature": "temperature",
    "reward_scale": "reward_scale",
}


class FrozenObservation(gymnasium.Wrapper):
    """A common bug: `step` returns the observation of the reset, because nobody updated it."""

    def reset(self, **options):
        self.first, info = self.env.reset(**options)
        return self.first, info

    def step(self, action):
        _, *rest = self.env.step(action)
        return (self.first, *rest)


RUNS = {
    "healthy": dict(),
    "frozen observation": dict(wrap=FrozenObservation),
    "learning rate x 300": dict(agent=dict(learning_rate=0.09, learning_rate_end=0.09)),
}


def train(name: str, agent: dict | None = None, wrap=lambda env: env) -> None:
    with tempfile.TemporaryDirectory() as folder:
        flashsac.train(
            lambda: wrap(gymnasium.make("Pendulum-v1")),
            preset="laptop",
            steps=9_000,
            run_dir=f"{folder}/run",
            video=False,
            log_every=200,
            checkpoint_every=0,
            agent=dict(warmup=1_000) | (agent or {}),
            eval=dict(every=1_000, episodes=5),
        )
        with open(f"{folder}/run/metrics.csv") as file:
            rows = list(csv.DictReader(file))
    RESULTS.mkdir(parents=True, exist_ok=True)
    with open(RESULTS / f"{name.replace(' ', '-')}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _short(row.get(key, "")) for key in COLUMNS} for row in rows)


def _short(value: str) -> str:
    return f"{float(value):.5g}" if value else ""


def draw() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(12, 6), sharex=True, layout="constrained")
    for name, colour in zip(RUNS, ("tab:green", "tab:red", "tab:orange"), strict=True):
        with open(RESULTS / f"{name.replace(' ', '-')}.csv") as file:
            rows = list(csv.DictReader(file))
        for axis, (column, label) in zip(axes.flat, PANELS.items(), strict=True):
            points = [(float(row["step"]), float(row[column])) for row in rows if row[column]]
            axis.plot(*zip(*points, strict=True), color=colour, label=name)
            axis.set_title(label)
            axis.grid(alpha=0.3)
    axes.flat[4].set_yscale("log")
    for axis in axes[1]:
        axis.set_xlabel("step")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=80)


if __name__ == "__main__":
    if "--draw" not in sys.argv:
        for name, changes in RUNS.items():
            train(name, **changes)
    draw()
