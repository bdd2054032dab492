"""The report's numbers against brute force."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest

from flashsac.errors import FlashSACError
from flashsac.experiments.curves import Curve, band
from flashsac.experiments.grouping import group_paths
from flashsac.experiments.pictures import picture
from flashsac.experiments.published import PublishedCurves
from flashsac.experiments.recorded import read_run
from flashsac.experiments.report import report
from flashsac.runs.metrics import read_metrics
from tests.helpers import tiny_run

pytestmark = pytest.mark.slow


def test_band_is_mean_and_bootstrap_interval():
    steps = np.array([0.0, 10.0, 20.0])
    curves = [Curve(seed, steps, steps, np.array([0.0, seed, 2.0 * seed])) for seed in range(5)]
    line = band(curves, "step")
    assert line.mean.tolist() == [0.0, 2.0, 4.0]
    assert line.low[0] == line.high[0] == 0.0
    rng = np.random.default_rng(1)
    means = [np.mean(rng.choice(5, 5)) for _ in range(20_000)]
    assert line.low[1] == pytest.approx(np.percentile(means, 2.5), abs=0.1)
    assert line.high[1] == pytest.approx(np.percentile(means, 97.5), abs=0.1)


def test_time_axis_is_interpolated_where_all_runs_have_data():
    a = Curve(0, np.array([1.0, 2.0]), np.array([10.0, 20.0]), np.array([0.0, 10.0]))
    b = Curve(1, np.array([1.0, 2.0]), np.array([12.0, 30.0]), np.array([0.0, 10.0]))
    line = band([a, b], "seconds", points=3)
    assert line.x.tolist() == [12.0, 16.0, 20.0]
    assert line.mean[-1] == pytest.approx((10.0 + 10.0 * 8 / 18) / 2)


def test_report_on_real_runs_with_published_curves(tmp_path):
    runs = [tiny_run(tmp_path / "runs" / str(seed), seed=seed) for seed in range(2)]
    published = tmp_path / "published.csv"
    published.write_text(
        "group,method,task,metric,env_step,seeds,mean,ci_low,ci_high\n"
        "cpu,PPO,make_point,avg_return,0,5,-20,-21,-19\ncpu,PPO,make_point,avg_return,600,5,-10,-11,-9\n"
    )
    assert PublishedCurves(published).of_task("custom:make_point")["PPO"].mean.tolist() == [-20.0, -10.0]
    with published.open("a") as file:
        file.write("cpu,TD-MPC2,make_point,avg_return,5000,1,-3,,\n")
    alone = PublishedCurves(published).of_task("custom:make_point")["TD-MPC2"]
    assert (alone.mean, alone.low, alone.high) == ([-3.0], [-3.0], [-3.0]), "one seed has no interval"
    both = published.read_text().replace("make_point", "myo-reach") + "cpu,PPO,myo-reach,avg_success,0,5,0.5,0.4,0.6\n"
    (tmp_path / "both.csv").write_text(both)
    assert PublishedCurves(tmp_path / "both.csv").of_task("myosuite:myo-reach")["PPO"].mean.tolist() == [50.0], (
        "its metric"
    )
    table, picture, *_ = report({"flashsac": [tmp_path / "runs"]}, tmp_path / "out", published)
    assert picture.read_bytes().startswith(b"\x89PNG")
    with table.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "mean" and row["axis"] == "step"]
    finals = [read_metrics(run / "metrics.csv")[-1]["eval_return"] for run in runs]
    assert float(rows[-1]["value"]) == pytest.approx(np.mean(finals), rel=1e-4)
    assert rows[-1]["seeds"] == "2"


def test_groups_are_compared_by_name_whatever_version_made_them(tmp_path):
    run = tiny_run(tmp_path / "a" / "0")
    shutil.copytree(run, tmp_path / "b" / "0")
    config = tmp_path / "b" / "0" / "config.json"
    content = json.loads(config.read_text())
    content["config"]["agent"]["of_another_version"] = True
    config.write_text(json.dumps(content))
    groups = group_paths([f"new={tmp_path / 'a'}", f"old={tmp_path / 'b'}"])
    table, *_ = report(groups, tmp_path / "out")
    with table.open(newline="") as file:
        values = {name: [] for name in groups}
        for row in csv.DictReader(file):
            if row["kind"] == "mean":
                values[row["name"]].append(row["value"])
    assert values["new"]
    assert values["new"] == values["old"]


def test_names_with_patterns(tmp_path):
    for name in ("on-0", "on-1", "off-0", "[on]"):
        (tmp_path / name).mkdir()
    groups = group_paths([f"on={tmp_path}/on-*", f"{tmp_path}/[on]", f"none={tmp_path}/none-*"])
    assert groups == {
        "on": [tmp_path / "on-0", tmp_path / "on-1"],
        "flashsac": [tmp_path / "[on]"],
        "none": [tmp_path / "none-*"],  # and finding no runs there is an error that names it
    }


def test_runs_that_are_left_out_are_named(tmp_path):
    tiny_run(tmp_path / "runs" / "evaluated")
    tiny_run(tmp_path / "runs" / "not", eval=dict(every=0))
    said: list[str] = []
    report({"flashsac": [tmp_path / "runs"]}, tmp_path / "out", say=said.append)
    assert said == [f"left out: {tmp_path / 'runs' / 'not'}, which has not been evaluated"]


def test_names_with_dots_and_slashes_and_runs_with_nothing_in_common(tmp_path):
    """gym:ALE/Pong-v5.1, as Gymnasium allows; one run stopped before the other's first evaluation."""
    for seed, steps in enumerate([(10, 20), (30, 40)]):
        run = tmp_path / "runs" / str(seed)
        run.mkdir(parents=True)
        (run / "config.json").write_text(json.dumps({"task": "gym:ALE/Pong-v5.1", "config": {"seed": seed}}))
        rows = [f"{step},{seed}.5,{step}\n" for step in steps]
        (run / "metrics.csv").write_text("step,eval_return,seconds\n" + "".join(rows))
    said: list[str] = []
    table, picture, *_ = report({"flashsac": [tmp_path / "runs"]}, tmp_path / "out", say=said.append)
    assert (table.name, picture.name) == ("gym-ALE-Pong-v5.1.csv", "gym-ALE-Pong-v5.1.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
    with table.open(newline="") as file:
        assert {row["kind"] for row in csv.DictReader(file)} == {"seed"}
    assert "no mean of flashsac on gym:ALE/Pong-v5.1 over environment steps" in said[0]


def write_run(path, seed, last, **settings):
    """A run as its two files show it."""
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"task": "gym:A-v0", "config": {"seed": seed} | settings}))
    (path / "metrics.csv").write_text(f"step,eval_return,seconds\n0,0,0\n100,{last},10\n")
    return path


def means(table):
    """By name: the last mean, its interval, and the number of seeds."""
    with table.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "mean" and row["axis"] == "step"]
    return {row["name"]: (float(row["value"]), row["ci_low"], row["seeds"]) for row in rows}


def test_runs_of_different_settings_never_share_a_curve(tmp_path):
    """Two settings with two seeds each, which used to be one curve of four seeds."""
    for seed in range(2):
        write_run(tmp_path / "runs" / f"a{seed}", seed, 1, agent=dict(discount=0.99, residual=True), log_every=5)
        write_run(tmp_path / "runs" / f"b{seed}", seed, 5, agent=dict(discount=0.95, residual=False), log_every=7)
    said: list[str] = []
    table, *_ = report({"flashsac": [tmp_path / "runs"]}, tmp_path / "out", say=said.append)
    assert means(table) == {
        "--agent.discount 0.99, --agent.residual": (1, "", "2"),
        "--agent.discount 0.95, --agent.no-residual": (5, "", "2"),
    }
    assert len(said) == 1
    assert "differ in --agent.discount, --agent.residual. Each combination has its own curve" in said[0]


def test_a_named_group_is_one_curve_and_says_what_differs_in_it(tmp_path):
    runs = [write_run(tmp_path / str(seed), seed, seed, steps=100 + seed) for seed in range(3)]
    said: list[str] = []
    table, *_ = report({"mine": runs}, tmp_path / "out", say=said.append)
    assert means(table) == {"mine": (1, "0", "3")}
    assert said == ["warning: the runs of mine on gym:A-v0 differ in --steps, and share one curve"]


def test_where_many_settings_differ_the_legend_names_those_that_tell_curves_apart(tmp_path):
    for i in range(3):
        values = dict(zip("abcde", (i > 0, 1 + (i > 1), i > 0, i > 1, i), strict=True))
        write_run(tmp_path / "runs" / str(i), 0, i, agent=values)
    table, *_ = report({"flashsac": [tmp_path / "runs"]}, tmp_path / "out")
    assert set(means(table)) == {
        "--agent.no-a, --agent.b 1 and 3 more",
        "--agent.a, --agent.b 1 and 3 more",
        "--agent.a, --agent.b 2 and 3 more",
    }


def in_sweep(root, variant, seed=0):
    """The run directory of a trial on gym:A-v0."""
    return root / "gym-A-v0" / variant / f"seed-{seed}"


def test_runs_of_a_sweep_are_called_like_their_variants(tmp_path, monkeypatch):
    for i, variant in enumerate(("a_MLP", "b_residual", "c_batchnorm", "d_rmsnorm", "e_distcritic")):
        values = {name: done < i for done, name in enumerate("pqrst")}
        for seed in (0, 1000):
            write_run(in_sweep(tmp_path / "sweep", variant, seed), seed, i, agent=values)
    said: list[str] = []
    table, *_ = report({"flashsac": [tmp_path / "sweep"]}, tmp_path / "out", say=said.append)
    assert list(means(table)) == ["a_MLP", "b_residual", "c_batchnorm", "d_rmsnorm", "e_distcritic"]
    assert said == []
    monkeypatch.chdir(in_sweep(tmp_path / "sweep", "b_residual"))
    table, *_ = report(group_paths([".", "../../a_MLP"]), tmp_path / "out")
    assert set(means(table)) == {"a_MLP", "b_residual"}, "wherever it is asked from"


def test_a_name_that_the_user_gives_wins_over_the_variant(tmp_path):
    for i, variant in enumerate(("a", "b")):
        write_run(in_sweep(tmp_path / "sweep", variant), 0, i, agent=dict(p=i))
    write_run(tmp_path / "other", 0, 7, agent=dict(p=7))
    groups = group_paths([f"mine={in_sweep(tmp_path / 'sweep', 'a')}", f"b={tmp_path / 'other'}"])
    groups["flashsac"] = [in_sweep(tmp_path / "sweep", "b")]
    table, *_ = report(groups, tmp_path / "out")
    assert {name: value for name, (value, *_) in means(table).items()} == {"mine": 0, "b": 7, "b (unnamed)": 1}


def test_runs_of_one_variant_but_different_settings_have_lines_of_their_own(tmp_path):
    """Two sweeps of different length, and a run outside of any sweep with the settings of one of them."""
    write_run(in_sweep(tmp_path / "short", "flashsac"), 0, 1, steps=100)
    write_run(in_sweep(tmp_path / "long", "flashsac", 1), 1, 5, steps=900)
    write_run(tmp_path / "alone", 2, 7, steps=900)
    write_run(in_sweep(tmp_path / "short", "other"), 0, 3, steps=100, agent=dict(p=1))
    said: list[str] = []
    table, *_ = report({"flashsac": [tmp_path]}, tmp_path / "out", say=said.append)
    assert means(table) == {
        "flashsac --steps 100": (1, "", "1"),
        "flashsac --steps 900": (6, "", "2"),
        "other": (3, "", "1"),
    }
    assert len(said) == 1
    assert "the runs of flashsac on gym:A-v0 differ in --steps. Each combination has its own curve" in said[0]


@pytest.mark.parametrize("folder", ["gym-B-v0/a/seed-0", "gym-A-v0/a/seed-1", "gym-A-v0/a b/seed-0", "a/seed-0"])
def test_other_folders_name_no_variant(tmp_path, folder):
    write_run(tmp_path / folder, 0, 1)
    table, *_ = report({"flashsac": [tmp_path]}, tmp_path / "out")
    assert set(means(table)) == {"flashsac"}


def test_settings_that_differ_in_a_late_digit_are_not_lost(tmp_path):
    for i, rate in enumerate((0.00031234567, 0.00031234568)):
        write_run(tmp_path / "runs" / str(i), 0, i, agent=dict(learning_rate=rate))
    table, *_ = report({"flashsac": [tmp_path / "runs"]}, tmp_path / "out")
    assert set(means(table)) == {"--agent.learning-rate 0.00031234567", "--agent.learning-rate 0.00031234568"}


def test_a_seed_that_occurs_twice_is_warned_of_and_counts_once(tmp_path):
    runs = [write_run(tmp_path / name, int(name[0]), 1, run_dir=name) for name in ("0", "1", "1-again")]
    said: list[str] = []
    table, *_ = report({"flashsac": runs}, tmp_path / "out", say=said.append)
    assert means(table) == {"flashsac": (1, "", "2")}, "two seeds have no interval"
    assert len(said) == 1
    assert f"seed 1 occurs 2 times in flashsac on gym:A-v0: {runs[1]}, {runs[2]}" in said[0]


@pytest.mark.parametrize(("seeds", "bands"), [(1, 0), (2, 0), (3, 2)])
def test_an_interval_is_drawn_for_three_seeds_or_more(tmp_path, monkeypatch, seeds, bands):
    drawn = []
    monkeypatch.setattr("matplotlib.axes.Axes.fill_between", lambda self, x, *rest, **style: drawn.append(len(x)))
    runs = [write_run(tmp_path / str(seed), seed, seed) for seed in range(seeds)]
    report({"flashsac": runs}, tmp_path / "out")
    assert len(drawn) == bands, "one in each panel"


def test_a_picture_that_cannot_be_drawn_is_closed_and_leaves_no_file(tmp_path):
    from matplotlib import pyplot as plt

    with pytest.raises(ZeroDivisionError), picture(tmp_path / "a.png", 1, 1, (2, 2)):
        raise ZeroDivisionError
    assert plt.get_fignums() == []
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_report(tmp_path):
    with pytest.raises(FlashSACError, match="no runs"):
        report({"flashsac": [tmp_path]}, tmp_path / "out")


def test_a_misspelt_run_is_not_passed_over(tmp_path):
    tiny_run(tmp_path / "run")
    with pytest.raises(FlashSACError, match="rum: no such file"):
        report({"flashsac": [tmp_path / "run", tmp_path / "rum"]}, tmp_path / "curves")
    assert not (tmp_path / "curves").exists()
    (tmp_path / "videos").mkdir()
    assert report({"flashsac": [tmp_path / "run", tmp_path / "videos"]}, tmp_path / "curves"), "as of a pattern"


def test_published_curves_from_images_are_kept_apart_and_count_transitions(tmp_path):
    """dog-walk is published twice; from images every action is done twice, so environment steps are two a transition."""
    file = tmp_path / "published.csv"
    file.write_text(
        "group,method,task,metric,env_step,seeds,mean,ci_low,ci_high\n"
        "cpu,FlashSAC,dog-walk,avg_return,1000,5,900,890,910\n"
        "vision,FlashSAC,dog-walk,avg_return,1000,5,30,20,40\n"
    )
    state, images = (PublishedCurves(file).of_task(f"{suite}:dog-walk")["FlashSAC"] for suite in ("dmc", "dmc-vision"))
    assert (state.x.tolist(), state.mean.tolist()) == ([1000], [900])
    assert (images.x.tolist(), images.mean.tolist()) == ([500], [30])


HEADER = "group,method,task,metric,env_step,seeds,mean,ci_low,ci_high\n"


def test_published_ablations_are_drawn_beside_the_same_variants_only(tmp_path):
    file = tmp_path / "published.csv"
    rows = [("gpu", "FlashSAC"), ("cpu", "SAC"), ("mine", "my own"), ("vision", "DrQ")]
    rows += [("ablation_architecture", name) for name in ("a_MLP", "b_residual")] + [("ablation_scaling", "utd4")]
    file.write_text(HEADER + "".join(f"{group},{name},A-v0,avg_return,0,5,1,,\n" for group, name in rows))
    always = {"FlashSAC", "SAC", "my own"}
    assert set(PublishedCurves(file).of_task("gym:A-v0")) == always
    plain = read_run(write_run(tmp_path / "plain", 0, 1))
    variant = read_run(write_run(in_sweep(tmp_path / "sweep", "a_MLP"), 0, 1))
    for lines, beside in (
        ({"flashsac": [plain]}, set()),
        ({"a_MLP": [variant]}, {"a_MLP"}),
        ({"the plain one": [variant]}, {"a_MLP"}),
        ({"utd4": [plain]}, {"utd4"}),
    ):
        assert set(PublishedCurves(file).beside({"gym:A-v0": lines})["gym:A-v0"]) == always | beside


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER.replace("task,", ""), "lacks the column task. A CSV of published curves has the columns task, method"),
        ("", "lacks the column task, method, metric, env_step, seeds, mean, ci_low, ci_high"),
        (HEADER + "cpu,PPO,A-v0,avg_return,0,5,1,,\ncpu,PPO,A-v0,avg_return,0,five,1,,\n", "line 3: seeds must be"),
        (HEADER + "cpu,PPO,A-v0,avg_return,,5,1,,\n", "line 2: .* env_step and mean numbers"),
        (HEADER + "cpu,PPO,A-v0\n", "line 2: "),
        (b"\xff\xfe\x00", "is no CSV file"),
        (None, "cannot be read"),
    ],
)
def test_a_file_of_published_curves_is_checked_before_anything_is_written(tmp_path, text, said):
    file = tmp_path / "published.csv"
    if text is not None:
        file.write_bytes(text.encode() if isinstance(text, str) else text)
    run = write_run(tmp_path / "run", 0, 1)
    with pytest.raises(FlashSACError, match=said):
        report({"flashsac": [run]}, tmp_path / "out", file)
    assert not (tmp_path / "out").exists()
