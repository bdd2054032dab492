"""The verdicts on the paper's findings, from runs whose numbers are made up."""

from __future__ import annotations

import csv
import itertools
import json

import numpy as np
import pytest

from tests.helpers import from_file

findings = from_file("benchmarks/ablation_findings.py")

A, B = "mujoco:HalfCheetah-v4", "dmc:walker-walk"


def write_run(sweep, task, variant, seed, last, *, seconds=10.0, agent=None, replay=None, **diagnostics):
    """A run that rises evenly to its last return."""
    run = sweep / task.replace(":", "-") / variant / f"seed-{seed}"
    run.mkdir(parents=True)
    settings = {"seed": seed, "steps": 100, "agent": agent or {}, "replay": replay or {}}
    (run / "config.json").write_text(json.dumps({"task": task, "config": settings}))
    columns = "".join(f",{name}" for name in diagnostics)
    values = "".join(f",{value}" for value in diagnostics.values())
    (run / "metrics.csv").write_text(
        f"step,eval_return,seconds{columns}\n0,0,0{',' * len(diagnostics)}\n50,{last / 2},{seconds / 2}{values}\n"
        f"100,{last},{seconds}{',' * len(diagnostics)}\n"
    )


def verdicts(sweep):
    runs = findings.read_runs(sweep)
    return {
        (row["better"], row["worse"], row["measure"]): row
        for row in (findings.judge(runs, claim) for claim in findings.claims(runs))
    }


def test_the_rule():
    assert findings.verdict_of(0.51, 1.0, False) == "came out"
    assert findings.verdict_of(0.0, 0.49, False) == "did not"
    assert findings.verdict_of(0.3, 0.5, False) == "cannot be told"
    assert findings.verdict_of(0.3, 0.7, True) == "came out"
    assert findings.verdict_of(0.2, 0.7, True) == "cannot be told"
    assert findings.verdict_of(0.51, 0.7, True) == "did not"


def test_each_step_of_the_architecture(tmp_path):
    """b is always better than a, c worse than b, and d like c."""
    lasts = {"a_MLP": (1, 2, 3), "b_residual": (7, 8, 9), "c_batchnorm": (4, 5, 6), "d_rmsnorm": (4, 5, 6)}
    for task, (variant, values) in itertools.product((A, B), lasts.items()):
        for seed, last in enumerate(values):
            write_run(tmp_path, task, variant, seed, last)
    rows = verdicts(tmp_path)
    found = {(better[0], worse[0]): row["verdict"] for (better, worse, _), row in rows.items()}
    assert found == {
        ("b", "a"): "came out",
        ("c", "b"): "did not",
        ("d", "c"): "cannot be told",
        ("d", "a"): "came out",
    }
    row = rows["d_rmsnorm", "c_batchnorm", "last return"]
    assert row["probability"] == pytest.approx(0.5)
    assert row["ci_low"] < 0.5 < row["ci_high"]
    assert (row["tasks"], row["seeds"]) == (2, 3)


def test_two_seeds_tell_nothing(tmp_path):
    for variant, seed in itertools.product(("a_MLP", "b_residual"), range(2)):
        write_run(tmp_path, A, variant, seed, 1 + (variant > "b"))
    assert [row["verdict"] for row in verdicts(tmp_path).values()] == ["cannot be told"]


def test_speed_counts_against_time_and_against_steps(tmp_path):
    """The larger batch learns as much in as many steps, and a little more, but takes four times as long."""
    for seed in range(3):
        write_run(tmp_path, A, "flashsac", seed, 10 + 0.1 * seed, agent=dict(batch_size=128))
        write_run(tmp_path, A, "batch_512", seed, 11 + 0.1 * seed, seconds=40.0, agent=dict(batch_size=512))
    rows = verdicts(tmp_path)
    assert rows["batch_512", "flashsac", "mean over training time"]["verdict"] == "did not"
    assert rows["batch_512", "flashsac", "mean over steps"]["verdict"] == "came out"
    run = findings.read_runs(tmp_path)[0]
    assert run.variant == "batch_512"
    # Of 40 seconds the first 10 count, in which it rises evenly to 11 / 4.
    assert findings.mean_over_time([run], 10.0)[0] == pytest.approx(11 / 4 / 2)


def test_levels_are_read_from_the_settings(tmp_path):
    for variant, ratio, capacity in (("flashsac", 0.5, 1000), ("utd1", 1.0, 1000), ("utd0.125", 0.125, 1000)):
        write_run(tmp_path, A, variant, 0, 1, agent=dict(updates_per_transition=ratio), replay=dict(capacity=capacity))
    for capacity in (10, 100, 5000):
        write_run(
            tmp_path,
            A,
            f"buffer_{capacity}",
            0,
            1,
            agent=dict(updates_per_transition=0.5),
            replay=dict(capacity=capacity),
        )
    runs = findings.read_runs(tmp_path)
    assert findings.family_of(runs, "utd") == ["utd0.125", "flashsac", "utd1"]
    assert findings.family_of(runs, "buffer") == ["buffer_10", "buffer_100", "flashsac", "buffer_5000"]
    assert findings.family_of(runs, "batch") == []
    asked = {(claim.better, claim.worse) for claim in findings.claims(runs)}
    assert asked == {
        ("utd0.125", "utd1"),
        ("flashsac", "utd1"),
        ("utd0.125", "flashsac"),
        ("buffer_100", "buffer_10"),
        ("flashsac", "buffer_100"),
        ("flashsac", "buffer_5000"),
    }


def test_no_difference_needs_a_narrow_interval(tmp_path):
    """Twelve seeds that differ by chance alone, and a setting that is worse."""
    random = np.random.default_rng(0)
    order = random.permutation(24)
    for seed in range(12):
        for task in (A, B):
            write_run(tmp_path, task, "flashsac", seed, 100 + order[seed], agent=dict(target_std=0.15))
            write_run(tmp_path, task, "target_std_0.2", seed, 100 + order[seed + 12], agent=dict(target_std=0.2))
            write_run(tmp_path, task, "target_std_0.05", seed, order[seed], agent=dict(target_std=0.05))
            write_run(tmp_path, task, "no_noise_repeat", seed, order[seed], agent=dict(target_std=0.15))
    rows = verdicts(tmp_path)
    assert rows["target_std_0.05", "flashsac", "last return"]["verdict"] == "did not"
    assert rows["target_std_0.2", "flashsac", "last return"]["verdict"] == "came out"
    assert rows["flashsac", "no_noise_repeat", "last return"]["verdict"] == "came out"
    assert rows["flashsac", "no_noise_repeat", "mean over training time"]["verdict"] == "came out"


def test_rank_correlation_by_brute_force():
    ours, theirs = np.array([1.0, 2, 3, 4, 5, 6]), np.array([1.0, 2, 3, 4, 6, 5])
    rho, chance = findings.rank_correlation(ours, theirs)
    assert rho == pytest.approx(1 - 6 * 2 / (6 * 35))
    # The order itself, and each of its five exchanges of neighbours.
    assert chance == pytest.approx(6 / 720)
    assert findings.rank_correlation(ours, ours) == (pytest.approx(1.0), pytest.approx(1 / 720))
    assert findings.rank_correlation(ours, np.ones(6)) == (0.0, 0.5)


def test_orders_of_diagnostics_and_the_files(tmp_path):
    """The condition number falls as published, srank rises instead, and nobody has logged the others."""
    published = tmp_path / "published.csv"
    lines = ["method,task,metric,env_step,seeds,mean,min,max"]
    for i, name in enumerate(findings.ARCHITECTURES):
        for seed in range(3):
            diagnostics = {"diag/critic_condition": 10.0 ** (9 - i) * (1 + seed), "diag/critic_srank": min(i, 4)}
            write_run(tmp_path / "sweep", A, name, seed, i, **diagnostics)
        lines += [
            f"{name},Task,critic/condition_number,{step},5,{value},0,0"
            for step, value in ((0, 60 - i), (50, 60 - i), (100, 1e9 * i))
        ]
        lines += [f"{name},Task,srank,100,5,{60 - i},0,0"]
    published.write_text("\n".join(lines))
    out = tmp_path / "out"
    findings.main([str(tmp_path / "sweep"), "--out", str(out), "--published", str(published)])
    with (out / "diagnostics.csv").open(newline="") as file:
        rows = {row["diagnostic"]: row for row in csv.DictReader(file)}
    condition, srank = rows["diag/critic_condition"], rows["diag/critic_srank"]
    assert (condition["verdict"], condition["rho"]) == ("same order", "1")
    assert condition["ours"] == condition["theirs"] == "f < e < d < c < b < a"
    assert srank["verdict"] == "opposite order"
    assert srank["ours"] == "a < b < c < d < e = f"
    assert rows["diag/critic_dormant"]["verdict"] == "cannot be told"
    with (out / "findings.csv").open(newline="") as file:
        assert [row["verdict"] for row in csv.DictReader(file)] == ["came out"] * 6
    assert "| f_flashSAC | a_MLP |" in (out / "findings.md").read_text()


def test_one_outlier_decides_no_order(tmp_path):
    """One measurement of one seed is a million times too large, and one seed of another architecture ten times."""
    for i, name in enumerate(findings.ARCHITECTURES[:4]):
        for seed in range(3):
            write_run(tmp_path, A, name, seed, 1, **{"diag/critic_condition": 10.0 ** (4 - i)})
    runs = findings.read_runs(tmp_path)
    level, columns = {run.variant: run.diagnostics["diag/critic_condition"] for run in runs}, ("diag/critic_condition",)
    assert level == dict(zip(findings.ARCHITECTURES, (1e4, 1e3, 1e2, 1e1), strict=False))
    rows = [{"step": i, columns[0]: value} for i, value in enumerate((8.0, 1e7, 9.0))] + [{"step": 3.0}]
    assert findings.medians(rows) == {columns[0]: 9.0}
    names = findings.ARCHITECTURES[:4]
    outlier = next(run for run in runs if run.variant == "d_rmsnorm")
    outlier.diagnostics[columns[0]] = 1e4  # the arithmetic mean of d, 3340, would be above those of b and c
    ranks = findings.our_ranks(runs, columns[0], names)
    assert ranks.tolist() == [4, 3, 1.5, 1.5]


def test_a_share_of_zero_has_a_level_too(tmp_path):
    for i, name in enumerate(findings.ARCHITECTURES[:4]):
        for seed in range(3):
            write_run(tmp_path, A, name, seed, 1, **{"diag/critic_dormant": 0.1 * i * (seed > 0)})
    ranks = findings.our_ranks(findings.read_runs(tmp_path), "diag/critic_dormant", findings.ARCHITECTURES[:4])
    assert ranks.tolist() == [1, 2, 3, 4]


def test_a_run_that_goes_on_does_not_count(tmp_path, capsys):
    write_run(tmp_path, A, "a_MLP", 0, 1)
    write_run(tmp_path, A, "a_MLP", 1, 1)
    metrics = tmp_path / A.replace(":", "-") / "a_MLP" / "seed-1" / "metrics.csv"
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:-1]))
    assert [run.seed for run in findings.read_runs(tmp_path)] == [0]
    assert f"left out: {metrics.parent}, which is not finished" in capsys.readouterr().out


def test_a_directory_without_sweeps_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit):
        findings.main([str(tmp_path), "--out", str(tmp_path / "out")])
    assert "TASK/VARIANT/seed-N" in capsys.readouterr().err
