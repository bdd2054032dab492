"""Which of the paper's findings came out in ablations here: compares the variants of sweeps, and writes a table.

    python benchmarks/ablation_findings.py SWEEP ... --out DIR [--published published_diagnostics.csv]

SWEEP is the directory of a sweep with runs in TASK/VARIANT/seed-N, variants named as in `ablation/architecture`,
`ablation/scaling` and `ablation/exploration`. DIR gets findings.csv, findings.md and, with `--published`,
diagnostics.csv: the order of the six architectures by each diagnostic beside the published one. A run counts with its
median over time, an architecture with the geometric mean over seeds, so that no single measurement decides.

The rule: P is the probability that a run of the first variant beats one of the second on the same task, with its 95%
stratified bootstrap interval. Above 0.5 the finding came out, below it did not, otherwise it cannot be told. "No
difference" came out if the interval lies in [0.25, 0.75], and did not if it leaves 0.5 out.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata, spearmanr

from flashsac.experiments.aggregate import improvement_interval, probability_of_improvement
from flashsac.experiments.curves import FEWEST_SEEDS, Curve, read_curve
from flashsac.runs.directory import read_recorded_settings, read_task_and_seed
from flashsac.runs.metrics_file import Row, read_metrics
from flashsac.system.files import write_atomic

DEFAULT = "flashsac"
"""The variant whose settings are as they are."""
ARCHITECTURES = ("a_MLP", "b_residual", "c_batchnorm", "d_rmsnorm", "e_distcritic", "f_flashSAC")
FAMILIES = {
    "batch": ("agent", "batch_size"),
    "buffer": ("replay", "capacity"),
    "width": ("agent", "critic_width"),
    "depth": ("agent", "blocks"),
    "utd": ("agent", "updates_per_transition"),
    "target_std": ("agent", "target_std"),
}
"""How the names of a family's variants begin, and the setting that it varies."""
GROWING = {"batch": "larger batch", "width": "wider network", "depth": "deeper network"}
DIAGNOSTICS = {
    "diag/critic_condition": "critic/condition_number",
    "diag/critic_max_eig": "critic/max_eigval",
    "diag/critic_min_eig": "critic/min_eigval",
    "diag/critic_dormant": "dormant_neurons",
    "diag/critic_srank": "srank",
    "diag/critic_feature_norm": "feature_magnitude",
    "diag/critic_gradient_norm": "gradient_param_norm",
    "diag/critic_weight_norm": "weight_param_norm",
}
"""Our columns of metrics.csv, and the published names."""
SHARES = {"diag/critic_dormant"}
"""Columns that may well be zero. Their mean over seeds is the ordinary one, all others are compared as logarithms."""
SMALLEST = 1e-10
"""Smaller values count as this one, which is also the damping of the condition number: zero has no logarithm."""
DIGITS = 9
"""Levels that agree in so many decimals are equal: rounding does not decide an order."""
CAME_OUT, DID_NOT, CANNOT_TELL = "came out", "did not", "cannot be told"
SAME_WIDTH = 0.25
"""How far from 0.5 the interval of "no difference" may reach."""
SURE = 0.05


@dataclasses.dataclass(frozen=True)
class RunOf:
    """A run of a sweep."""

    variant: str
    task: str
    seed: int
    settings: dict[str, Any]
    curve: Curve
    diagnostics: dict[str, float]
    """The median over the run of each column that was measured."""


Measure = Callable[[Sequence[RunOf], float], list[float]]
"""One number for each run of a task, larger is better; the second argument is where the shortest of all runs ends, in
seconds."""


def last_return(runs: Sequence[RunOf], end: float) -> list[float]:
    """Return the last evaluation of each run."""
    return [float(run.curve.value[-1]) for run in runs]


def mean_over_time(runs: Sequence[RunOf], end: float) -> list[float]:
    """Return the mean of each curve over the training time that all runs have."""
    grid = np.linspace(0, end, 201)
    return [float(np.interp(grid, run.curve.seconds, run.curve.value).mean()) for run in runs]


def mean_over_steps(runs: Sequence[RunOf], end: float) -> list[float]:
    """Return the mean of each curve over its steps."""
    return [
        float(np.interp(np.linspace(0, 1, 201), run.curve.step / run.curve.step[-1], run.curve.value).mean())
        for run in runs
    ]


MEASURES: dict[str, Measure] = {
    "last return": last_return,
    "mean over training time": mean_over_time,
    "mean over steps": mean_over_steps,
}


@dataclasses.dataclass(frozen=True)
class Claim:
    """A finding of the paper: `better` beats `worse` by a measure, or the two do not differ."""

    finding: str
    better: str
    worse: str
    measure: str
    no_difference: bool = False


def read_runs(sweep: Path) -> list[RunOf]:
    """Return the finished runs of a sweep. Others would be compared by an earlier evaluation."""
    runs = []
    for config in sorted(sweep.rglob("seed-*/config.json")):
        run = config.parent
        curve = read_curve(run) if (run / "metrics.csv").exists() else None
        settings = read_recorded_settings(run)
        if curve is None or curve.step[-1] < settings["steps"]:
            print(f"left out: {run}, which is not finished")
        else:
            task, seed = read_task_and_seed(run)
            runs.append(RunOf(run.parent.name, task, seed, settings, curve, medians(read_metrics(run / "metrics.csv"))))
    return runs


def medians(rows: Sequence[Row]) -> dict[str, float]:
    """Return the median of each diagnostic over the rows that have it."""
    values = {column: [row[column] for row in rows if np.isfinite(row.get(column, np.nan))] for column in DIAGNOSTICS}
    return {column: float(np.median(some)) for column, some in values.items() if some}


def claims(runs: Sequence[RunOf]) -> Iterator[Claim]:
    """Yield the paper's findings that these runs can be asked about."""
    variants = {run.variant for run in runs}
    steps = [name for name in ARCHITECTURES if name in variants]
    for before, after in itertools.pairwise(steps):
        yield Claim(f"{after[2:]} improves on {before[2:]}", after, before, "last return")
    if len(steps) > 2:
        yield Claim("the full architecture improves on its first step", steps[-1], steps[0], "last return")
    for family, what in GROWING.items():
        yield from _fastest(what, family_of(runs, family))
    yield from _fastest("lower update ratio", family_of(runs, "utd")[::-1])
    yield from _buffer(family_of(runs, "buffer"))
    for variant in family_of(runs, "target_std"):
        if variant != DEFAULT:
            yield Claim(f"{variant} makes no difference", variant, DEFAULT, "last return", no_difference=True)
    if {DEFAULT, "no_noise_repeat"} <= variants:
        for finding, measure in (
            ("noise repetition raises scores", "last return"),
            ("noise repetition speeds up learning", "mean over training time"),
        ):
            yield Claim(finding, DEFAULT, "no_noise_repeat", measure)


def family_of(runs: Sequence[RunOf], family: str) -> list[str]:
    """Return the variants of a family and the default, from the smallest setting to the largest."""
    group, name = FAMILIES[family]
    level = {
        run.variant: run.settings[group][name]
        for run in runs
        if (run.variant.startswith(family) or run.variant == DEFAULT) and name in run.settings.get(group, {})
    }
    return sorted(level, key=level.__getitem__) if set(level) - {DEFAULT} else []


def _fastest(what: str, rising: list[str]) -> Iterator[Claim]:
    """The paper's trends are against wall-clock time. Those against steps say whether time is the reason."""
    if len(rising) < 2:
        return
    for measure in ("mean over training time", "mean over steps"):
        yield Claim(f"a {what} learns faster (the ends)", rising[-1], rising[0], measure)
    if len(rising) > 2:
        for lower, higher in itertools.pairwise(rising):
            yield Claim(f"a {what} learns faster (one step)", higher, lower, "mean over training time")


def _buffer(rising: list[str]) -> Iterator[Claim]:
    """Larger is better, but the largest buffer learns more slowly."""
    for lower, higher in itertools.pairwise(rising[:-1]):
        yield Claim("a larger buffer raises scores (up to the largest but one)", higher, lower, "last return")
    if len(rising) > 1:
        yield Claim("the largest buffer learns more slowly", rising[-2], rising[-1], "mean over training time")


def judge(runs: Sequence[RunOf], claim: Claim) -> dict[str, Any]:
    """Return one row of the table."""
    by_task: dict[str, dict[str, list[RunOf]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        by_task[run.task][run.variant].append(run)
    measure = MEASURES[claim.measure]
    ours, theirs, seeds = [], [], []
    for named in by_task.values():
        better, worse = named[claim.better], named[claim.worse]
        if better and worse:
            end = min(run.curve.seconds[-1] for run in (*better, *worse))
            ours.append(np.array(measure(better, end)))
            theirs.append(np.array(measure(worse, end)))
            seeds += [len({run.seed for run in some}) for some in (better, worse)]
    row = dataclasses.asdict(claim) | {"tasks": len(ours), "seeds": min(seeds, default=0)}
    if min(seeds, default=0) < FEWEST_SEEDS:
        return row | {"verdict": CANNOT_TELL}
    low, high = improvement_interval(ours, theirs)
    probability = float(probability_of_improvement(ours, theirs))
    verdict = verdict_of(low, high, claim.no_difference)
    return row | {"probability": probability, "ci_low": low, "ci_high": high, "verdict": verdict}


def verdict_of(low: float, high: float, no_difference: bool) -> str:
    """Apply the rule at the top of this file."""
    if no_difference:
        if low > 0.5 or high < 0.5:
            return DID_NOT
        return CAME_OUT if low >= 0.5 - SAME_WIDTH and high <= 0.5 + SAME_WIDTH else CANNOT_TELL
    return CAME_OUT if low > 0.5 else DID_NOT if high < 0.5 else CANNOT_TELL


# --- the order of the architectures by their diagnostics --------------------------------------------------------------


def our_ranks(runs: Sequence[RunOf], column: str, names: Sequence[str]) -> np.ndarray | None:
    """Return the mean rank of each architecture over tasks, by its level over seeds.

    None if one of them has no run with this column."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.variant in names and column in run.diagnostics:
            values[run.task][run.variant].append(run.diagnostics[column])
    whole = [named for named in values.values() if all(name in named for name in names)]
    return mean_ranks([[level(column, named[name]) for name in names] for named in whole])


def level(column: str, values: Sequence[float]) -> float:
    """Return the mean of the logarithms of a diagnostic over seeds; of a share, the mean itself."""
    compared = np.asarray(values) if column in SHARES else np.log(np.maximum(values, SMALLEST))
    return round(float(np.mean(compared)), DIGITS)


def published_ranks(path: Path, metric: str, names: Sequence[str]) -> np.ndarray | None:
    """Return the mean rank of each architecture over the published tasks, by its median over the run."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["metric"] == metric and row["method"] in names:
                values[row["task"]][row["method"]].append(float(row["mean"]))
    whole = [named for named in values.values() if all(name in named for name in names)]
    return mean_ranks([[float(np.median(named[name])) for name in names] for named in whole])


def mean_ranks(by_task: list[list[float]]) -> np.ndarray | None:
    return np.mean([rankdata(values) for values in by_task], axis=0) if by_task else None


def compare_orders(runs: Sequence[RunOf], published: Path) -> list[dict[str, Any]]:
    """Return one row for each diagnostic: both orders and their rank correlation.

    The order is the same if so high a correlation has a chance below 5% among all orders, and opposite likewise."""
    names = [name for name in ARCHITECTURES if any(run.variant == name for run in runs)]
    rows: list[dict[str, Any]] = []
    for column, metric in DIAGNOSTICS.items():
        ours, theirs = our_ranks(runs, column, names), published_ranks(published, metric, names)
        if len(names) < 4 or ours is None or theirs is None:
            rows.append({"diagnostic": column, "published": metric, "verdict": CANNOT_TELL})
            continue
        orders = {"ours": _order(names, ours), "theirs": _order(names, theirs)}
        rho, chance = rank_correlation(ours, theirs)
        verdict = "same order" if chance <= SURE else "opposite order" if 1 - chance <= SURE else CANNOT_TELL
        rows.append(
            {"diagnostic": column, "published": metric, **orders, "rho": rho, "chance": chance, "verdict": verdict}
        )
    return rows


def rank_correlation(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    """Return Spearman's rank correlation, and the share of all orders of ours with at least this correlation."""
    if len(set(ours)) == 1 or len(set(theirs)) == 1:
        return 0.0, 0.5  # all the same: there is no order
    rho = spearmanr(ours, theirs).statistic
    standard = lambda ranks: (ranks - ranks.mean()) / (ranks.std() * np.sqrt(len(ranks)))
    ranks, others = standard(rankdata(ours)), standard(rankdata(theirs))
    orders = np.array(list(itertools.permutations(ranks)))
    return float(rho), float((orders @ others >= rho - 1e-9).mean())


def _order(names: Sequence[str], ranks: np.ndarray) -> str:
    """Write the first letters of the architectures, the smallest value first: a < b = c."""
    order = np.argsort(ranks, kind="stable")
    text = names[order[0]][0]
    for before, after in itertools.pairwise(order):
        text += f" {'=' if ranks[before] == ranks[after] else '<'} {names[after][0]}"
    return text


# --- files ------------------------------------------------------------------------------------------------------------

FINDINGS = ("finding", "better", "worse", "measure", "tasks", "seeds", "probability", "ci_low", "ci_high", "verdict")
ORDERS = ("diagnostic", "published", "ours", "theirs", "rho", "chance", "verdict")


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    lines = [columns, *([_text(row.get(column, "")) for column in columns] for row in rows)]
    write_atomic(path, "".join(",".join(line) + "\n" for line in lines))


def markdown(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    lines = [columns, ["---"] * len(columns), *([_text(row.get(column, "")) for column in columns] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value).replace(",", ";")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--published", type=Path)
    options = parser.parse_args(arguments)
    sweeps = [read_runs(sweep) for sweep in options.sweeps]
    rows = [judge(runs, claim) for runs in sweeps for claim in claims(runs)]
    if not rows:
        parser.error("no runs with variants that the paper has; sweeps keep theirs in TASK/VARIANT/seed-N")
    options.out.mkdir(parents=True, exist_ok=True)
    write_csv(options.out / "findings.csv", FINDINGS, rows)
    text = f"# The paper's findings, here\n\n{markdown(FINDINGS, rows)}"
    built = [runs for runs in sweeps if any(run.variant in ARCHITECTURES for run in runs)]
    if options.published and built:
        orders = [row for runs in built for row in compare_orders(runs, options.published)]
        write_csv(options.out / "diagnostics.csv", ORDERS, orders)
        text += f"\n# The six architectures by their diagnostics\n\n{markdown(ORDERS, orders)}"
    write_atomic(options.out / "findings.md", text)
    print(text)


if __name__ == "__main__":
    main()
