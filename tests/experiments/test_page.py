"""The page of a report: its data against numbers computed by hand, and the page itself in a real browser."""

from __future__ import annotations

import base64
import csv
import dataclasses
import io
import itertools
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from flashsac.cli.main import main
from flashsac.config.schema import to_dict
from flashsac.experiments.built_in import built_in
from flashsac.experiments.comparison import compare
from flashsac.experiments.curves import Band, Curve, crop_published, extent
from flashsac.experiments.page import extras
from flashsac.experiments.page.ablation import panels
from flashsac.experiments.page.data import page_data
from flashsac.experiments.page.kept import Kept, Piece, json_text
from flashsac.experiments.page.tables import settings_table, task_table
from flashsac.experiments.recorded import RecordedRun, find_runs, flatten, read_run
from flashsac.experiments.report import report
from flashsac.experiments.styles import style
from flashsac.runs.metrics import read_metrics
from tests.experiments.recorded_runs import TASK, add_coverage, add_video, add_wall_clock, record_run

EVIL = '</script><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
PUBLISHED = (
    "group,method,task,metric,env_step,seeds,mean,ci_low,ci_high\n"
    "cpu,PPO,HalfCheetah-v4,avg_return,0,5,0,0,0\ncpu,PPO,HalfCheetah-v4,avg_return,20000,5,500,400,600\n"
)


def data_of(*runs, name="flashsac", published=None):
    notes: list[str] = []
    comparison = compare({name: [read_run(run) for run in runs]}, notes.append)
    return page_data(comparison, published or {}, notes, lambda *about: about[-1].name)


def line(figure, name):
    (found,) = [line for line in figure["lines"] if line["name"] == name]
    return found


def made_up(name, **settings):
    """A run of which only the settings count."""
    return {name: [RecordedRun(Path("runs", name), TASK, 0, None, settings, [], {}, {})]}


def test_extent_is_mean_lowest_and_highest():
    steps = np.array([0.0, 10.0])
    found = extent([Curve(seed, steps, steps, np.array([seed, 4.0 * seed])) for seed in range(3)], "step")
    assert (found.mean.tolist(), found.low.tolist(), found.high.tolist()) == ([1, 4], [0, 0], [2, 8])


def test_on_a_logarithmic_axis_one_outlier_does_not_decide_the_mean(tmp_path):
    steps = np.array([0.0, 10.0])
    curves = [Curve(seed, steps, steps, np.array([value, value])) for seed, value in enumerate((1e3, 1e3, 1e9))]
    assert extent(curves, "step", logarithmic=True).mean.tolist() == pytest.approx([1e5, 1e5])
    short = Curve(3, steps[:1], steps[:1], np.array([1e3]))
    far = Curve(4, np.array([0.0, 4.0]), np.array([0.0, 4.0]), np.array([1.0, 1e8]))
    line_of_both = extent([far, dataclasses.replace(far, step=2 * far.step)], "step", points=5, logarithmic=True)
    assert line_of_both.low.tolist() == pytest.approx([1, 10, 100, 1e3, 1e4]), "straight on its axis"
    assert line_of_both.mean.tolist() == pytest.approx([1, 10**1.5, 10**3, 10**4.5, 10**6])
    assert extent([short], "step", logarithmic=True).mean.tolist() == pytest.approx([1e3])
    for seed in range(2):
        record_run(tmp_path / str(seed), seed=seed, rows=100)
    (figure,) = data_of(*(tmp_path / str(seed) for seed in range(2)))["tasks"][0]["diagnostics"]
    assert figure["log"]
    last = line(figure, "flashsac")["mean"]["step"]
    assert last["mean"][-1] == pytest.approx(np.sqrt(last["low"][-1] * last["high"][-1]), rel=1e-5)


def test_published_curves_end_where_ours_do_but_keep_their_first_points():
    x = np.array([0.0, 100.0, 200.0, 300.0])
    lines = {"long": Band(x, x, x, x, 5), "one": Band(x[:1], x[:1], x[:1], x[:1], 1)}
    cropped, right = crop_published(lines, 210.0)
    assert list(cropped) == ["long"]
    assert cropped["long"].x.tolist() == [0, 100, 200]
    assert right == pytest.approx(1.05 * 210)
    assert crop_published(lines, 10.0)[0]["long"].x.tolist() == [0, 100]


def test_lines_differ_in_more_than_colour():
    looks = [style(i) for i in range(42)]
    assert len({(look.colour, look.dash) for look in looks}) == 42
    assert all(a.colour != b.colour and a.dash != b.dash for a, b in itertools.pairwise(looks))


def test_the_data_of_a_page(tmp_path):
    runs = [record_run(tmp_path / str(seed), seed=seed) for seed in range(3)]
    data = data_of(*runs)
    (task,) = data["tasks"]
    drawn = line(task["figure"], "flashsac")
    rows = [read_metrics(run / "metrics.csv") for run in runs]
    finals = [table[-1]["eval_return"] for table in rows]
    assert drawn["mean"]["step"]["mean"][-1] == pytest.approx(np.mean(finals), rel=1e-5)
    assert drawn["mean"]["step"]["low"][-1] <= np.mean(finals) <= drawn["mean"]["step"]["high"][-1]
    assert drawn["runs"][2]["seconds"] == [12.0 * i for i in range(2, 21, 2)]
    titles = {kind: [figure["title"] for figure in task[kind]] for kind in ("diagnostics", "layers", "metrics")}
    assert titles == {
        "diagnostics": ["diag/critic_condition"],
        "layers": ["diag/critic/blocks.0/weight_norm"],
        "metrics": ["q", "critic_loss"],
    }
    loss = line(task["metrics"][1], "flashsac")
    values = [table[-1]["critic_loss"] for table in rows]
    ends = [loss["mean"]["step"][name][-1] for name in ("low", "mean", "high")]
    assert ends == pytest.approx([min(values), np.mean(values), max(values)], rel=1e-5)
    assert not task["metrics"][0]["log"]
    assert not task["diagnostics"][0]["log"], "from 10 to 100 times as much at most"
    assert data["runs"] == 3


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path):
    data = data_of(record_run(tmp_path / "long", rows=2400))
    (task,) = data["tasks"]
    run = task["figure"]["lines"][0]["runs"][0]
    assert len(run["step"]) == 500
    assert (run["step"][0], run["step"][-1]) == (1000, 1_200_000)
    metric = task["metrics"][0]["lines"][0]["runs"][0]
    assert len(metric["step"]) == len(metric["value"]) == 200
    assert task["diagnostics"][0]["log"], "from 12 to a million"


def test_numbers_that_are_not_finite_are_left_out(tmp_path):
    run = record_run(tmp_path / "run", rows=4)
    with (run / "metrics.csv").open("a") as file:
        file.write("2500,inf,nan,1,50,,\n3000,5,,-inf,nan,,\n")
    text = json.dumps(data_of(run), allow_nan=False)
    assert "null" in text


def test_the_table_of_tasks(tmp_path):
    runs = [record_run(tmp_path / str(seed), seed=seed, rows=20) for seed in range(2)]
    x = np.array([0.0, 20_000.0])
    published = {TASK: {"PPO": Band(x, x / 40, x, x, 5), "short": Band(x / 4, x, x, x, 5)}}
    (row,) = task_table(compare({"mine": [read_run(run) for run in runs]}, print), published)["rows"]
    last = 1000 * (1 - np.exp(-20 / 8))
    assert row[:4] == [TASK, "mine", "2", "10,000"]
    assert row[4] == "3 min 30 s", "the mean of 200 s and 220 s"
    assert row[5] == f"{last + 10:.1f} ({last:.1f} to {last + 20:.1f})"
    assert row[7] == "PPO 250.0", "the other one ends before"


def test_the_table_of_settings_has_only_those_that_differ(tmp_path):
    a = read_run(record_run(tmp_path / "a", agent=dict(batch_size=64)))
    b = read_run(record_run(tmp_path / "b", agent=dict(batch_size=128)))
    found = settings_table(compare({"small": [a], "large": [b]}, print))
    assert found["columns"][2:] == ["small", "large"]
    assert found["rows"] == [[TASK, "--agent.batch-size", "64", "128"]]


def test_panels_are_the_settings_that_were_varied_alone():
    base = dict(batch=1, width=8, depth=2)
    lines = made_up("b4", **base | {"batch": 4}) | made_up("w16", **base | {"width": 16}) | made_up("base", **base)
    lines |= made_up("b2", **base | {"batch": 2})
    assert [(panel["title"], panel["lines"]) for panel in panels(lines)] == [
        ("--batch", [["base", "1"], ["b2", "2"], ["b4", "4"]]),
        ("--width", [["base", "8"], ["w16", "16"]]),
    ]


def chain_of(*names):
    """Lines that switch on one component more each."""
    lines: dict = {}
    for done, name in enumerate(names):
        lines |= made_up(name, **{f"s{i}": i < done for i in range(len(names) - 1)}, width=8)
    return lines


def test_steps_that_build_on_each_other_are_one_panel_in_their_order():
    lines = chain_of("z_plain", "norm", "more", "all")
    for order in (lines, dict(reversed(lines.items()))):
        (panel,) = panels(order)
        assert panel["chain"]
        assert [name for name, _ in panel["lines"]] == ["z_plain", "norm", "more", "all"]
        assert panel["steps"] == [["norm", "--s0"], ["more", "--s1"], ["all", "--s2"]]
        assert panel["title"] == "z_plain to all, step by step"
    assert panels(chain_of("x", "y")) == [], "the figure of the task has both"


def test_three_lines_are_a_chain_only_if_each_step_switches_something_on():
    assert panels(chain_of("a", "b", "c"))[0]["chain"]
    full, without_a, without_b = dict(a=True, b=True), dict(a=False, b=True), dict(a=True, b=False)
    found = panels(made_up("full", **full) | made_up("no_a", **without_a) | made_up("no_b", **without_b))
    assert [panel["title"] for panel in found] == ["--a", "--b"]


def test_panels_of_two_sweeps_in_one_report_are_those_of_each():
    """The chain ends in the settings that the other sweep varies one at a time."""

    def of_sweep(sweep, lines):
        moved = {}
        for name, (run,) in lines.items():
            path = Path("runs", sweep, "mujoco-HalfCheetah-v4", name, "seed-0")
            moved[name] = [dataclasses.replace(run, path=path)]
        return moved

    on = dict(s0=True, s1=True, s2=True)
    star = made_up("flashsac", **on, width=8, std=1) | made_up("w4", **on, width=4, std=1)
    star |= made_up("std2", **on, width=8, std=2)
    chain = {
        name: [dataclasses.replace(run, settings=run.settings | {"std": 1})]
        for name, (run,) in chain_of("a", "b", "c", "d").items()
    }
    found = panels(of_sweep("steps", chain) | of_sweep("star", star), published={"w4"})
    assert [panel["title"] for panel in found] == ["a to d, step by step", "--width", "--std"]
    assert found[1]["lines"] == [["w4", "4"], ["flashsac", "8"], ["w4 (published)", "4 (published)", "w4"]]


@pytest.mark.parametrize("name", ["architecture", "scaling", "exploration"])
@pytest.mark.parametrize("laptop", [True, False])
def test_every_built_in_ablation_has_lines_of_its_variants_and_panels(name, laptop):
    sweep = built_in(f"ablation/{name}", laptop=laptop)
    runs = [
        RecordedRun(trial.run, trial.task, trial.seed, None, flatten(to_dict(trial.config)), [], {}, {})
        for trial in sweep.trials(Path("runs", name))
        if trial.task == sweep.tasks[0] and trial.seed == 0
    ]
    said: list[str] = []
    (lines,) = compare({"flashsac": runs}, said.append).values()
    assert list(lines) == [variant.name for variant in sweep.variants]
    assert not said
    found = panels(lines)
    assert {line[0] for panel in found for line in panel["lines"]} == set(lines)
    assert len(found) == {"architecture": 1, "scaling": 5, "exploration": 2}[name]
    if name == "architecture":
        assert [line[0] for line in found[0]["lines"]] == list(lines)


def test_coverage_of_any_content_is_read_or_left_out(tmp_path):
    assert extras.coverage(tmp_path, Kept()) == []
    add_coverage(tmp_path)
    found = extras.coverage(tmp_path, Kept())
    assert [pair["y"] for pair in found] == ["action 1", "action 2"]
    assert found[0]["numbers"] == {"support replay": 0.8, "support policy": 0.3}
    file = tmp_path / "coverage" / "coverage.json"
    whole = json.loads(file.read_text())
    damaged = ["", "[]", "{}", '{"pairs": 3}', '{"pairs": [{"x": "a"}]}', file.read_text()[:-20]]
    for name, value in (("replay", [[1]]), ("x_edges", "text"), ("policy", None)):
        damaged.append(json.dumps({"pairs": [whole["pairs"][0] | {name: value}]}))
    for text in damaged:
        file.write_text(text)
        assert extras.coverage(tmp_path, Kept()) == [], text


def test_what_was_read_is_kept_until_its_key_changes_or_nobody_asks():
    kept, made = Kept(), []
    ask = lambda key: kept.get(key, lambda: made.append(key))
    for keys in ("ab", "ab", "b", "ab"):
        kept.begin()
        for key in keys:
            ask(key)
            ask(key)
    assert made == ["a", "b", "a"], "b was asked for every time, and a was forgotten once"


def test_text_of_pieces_is_json_without_tags():
    piece = Piece(name="</script>", values=[1.5, None], empty=[], nested={"a": [{"b": "<!--"}]})
    data = {"<": [piece, piece], "plain": "x", "pieces": [[1, 2], [3]]}
    text = json_text(data)
    assert json.loads(text) == data
    assert "<" not in text
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text([Piece(x=float("nan"))])


def test_the_newest_video_inside_the_run_is_taken(tmp_path):
    run = tmp_path / "run"
    (run / "videos").mkdir(parents=True)
    assert extras.newest_video(run) is None
    for i, name in enumerate(("final.mp4", "play.mp4", ".writing-7-play.mp4")):
        (run / "videos" / name).write_bytes(b"x")
        os.utime(run / "videos" / name, (i, i))
    (tmp_path / "secret.mp4").write_bytes(b"secret")
    (run / "videos" / "link.mp4").symlink_to(tmp_path / "secret.mp4")
    (run / "videos" / "empty.mp4").touch()
    assert extras.newest_video(run) == run / "videos" / "play.mp4"


def test_folders_of_a_run_are_not_searched(tmp_path):
    run = record_run(tmp_path / "run", rows=2)
    for folder in ("checkpoints/step-1", "later"):
        (run / folder).mkdir(parents=True)
        for name in ("config.json", "metrics.csv"):
            (run / folder / name).write_bytes((run / name).read_bytes())
    assert find_runs([tmp_path]) == [run, run / "later"]


def test_without_plotly_pictures_and_tables_are_written_and_a_note_says_how_to_get_the_page(tmp_path, monkeypatch):
    run = record_run(tmp_path / "run")
    monkeypatch.setitem(sys.modules, "plotly", None)
    said: list[str] = []
    written = report({"mine": [run]}, tmp_path / "out", say=said.append)
    assert [file.suffix for file in written] == [".csv", ".png"]
    assert "pip install 'flashsac[report]'" in said[0]


def test_videos_lie_beside_the_page_or_in_it(tmp_path, capsys):
    video = add_video(record_run(tmp_path / "run"))
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "beside")]) == 0
    (copy,) = (tmp_path / "beside" / "videos").iterdir()
    assert copy.read_bytes() == video.read_bytes()
    assert f'"src":"videos/{copy.name}"' in (tmp_path / "beside" / "index.html").read_text()
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "one"), "--embed-videos"]) == 0
    assert not (tmp_path / "one" / "videos").exists()
    assert base64.b64encode(video.read_bytes()).decode() in (tmp_path / "one" / "index.html").read_text()
    assert "index.html" in capsys.readouterr().out


def test_names_are_text_and_never_markup(tmp_path):
    run = record_run(tmp_path / "run")
    report({EVIL: [run]}, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert EVIL not in page
    assert page.count("</script>") == page.count("<script")
    blob = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert blob is not None
    assert EVIL in json.loads(blob[1])["styles"], "nothing is lost either"


# --- in a browser -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A page with everything on it: two tasks, four settings, three seeds."""
    root = tmp_path_factory.mktemp("page")
    variants = [dict(batch_size=64), dict(batch_size=128), dict(batch_size=256), dict(batch_size=64, discount=0.95)]
    for number, task in enumerate((TASK, "mujoco:Ant-v4")):
        for seed in range(3):
            for i, agent in enumerate(variants):
                final = 1000.0 + 300 * i + 50 * seed
                record_run(root / "runs" / f"{number}{seed}{i}", task, seed, final=final, agent=agent)
    first = root / "runs" / "000"
    add_video(first)
    add_coverage(first)
    add_wall_clock(first)
    (root / "published.csv").write_text(PUBLISHED)
    report({"flashsac": [root / "runs"]}, root / "out", root / "published.csv")
    return (root / "out" / "index.html").as_uri()


CURVES = "#curves ~ div .card"


def drawn(opened):
    """Wait until the first figure of curves is drawn, and return its number of lines."""
    card = opened.page.locator(CURVES).first
    card.scroll_into_view_if_needed()
    opened.wait(f"document.querySelector('{CURVES} .scatterlayer .trace path.js-line') !== null")
    return card.locator(".scatterlayer .trace").count()


@pytest.mark.slow
def test_curves_are_drawn_from_a_file_and_nothing_is_asked_of_the_network(written, open_page):
    opened = open_page(written)
    lines = drawn(opened)
    assert lines == 4 * (1 + 3 + 1), "interval, three runs and mean for each of the four lines"
    headings = opened.page.locator("h2").all_inner_texts()
    wanted = "Overview Curves Ablations Diagnostics Coverage Metrics Wall clock Videos Settings Versions"
    assert " ".join(headings) == wanted
    for heading in headings:
        opened.page.locator("h2", has_text=heading).first.scroll_into_view_if_needed()
    opened.wait("document.querySelectorAll('.heatmaplayer image').length === 2")
    for summary in opened.page.locator("details.fold > summary").all():
        summary.click()
    assert opened.requests
    assert not [address for address in opened.requests if not address.startswith(("file:", "data:", "blob:"))]
    assert not opened.errors


@pytest.mark.slow
def test_hover_shows_values(written, open_page):
    opened = open_page(written)
    drawn(opened)
    plot = opened.page.locator(f"{CURVES} .plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + box["height"] * 0.5)
    opened.page.mouse.move(box["x"] + box["width"] * 0.62, box["y"] + box["height"] * 0.5)
    opened.wait("document.querySelector('.hoverlayer .legendtext') !== null")
    assert "--agent.batch-size 64" in plot.locator(".hoverlayer").text_content()


@pytest.mark.slow
def test_the_axis_the_published_curves_and_each_line_can_be_switched(written, open_page):
    opened = open_page(written)
    card = opened.page.locator(CURVES).nth(1)
    card.scroll_into_view_if_needed()
    second = f"document.querySelectorAll('{CURVES}')[1]"
    opened.wait(f"{second}.querySelector('.scatterlayer .trace') !== null")
    everything = card.locator(".scatterlayer .trace").count()
    assert card.locator(".legend button").count() == 5
    switch = opened.page.get_by_role("button", name="Published", exact=True)
    switch.click()
    opened.wait(f"{second}.querySelectorAll('.trace').length === {everything - 2}")
    switch.click()
    card.locator(".legend button").first.click()
    opened.wait(f"{second}.querySelectorAll('.trace').length === {everything - 5}")
    assert card.locator(".legend button").first.get_attribute("aria-pressed") == "false"
    opened.page.get_by_role("button", name="Time", exact=True).click()
    opened.wait(f"{second}.querySelector('.xtitle').textContent === 'training time (s)'")
    assert card.locator(".legend button").count() == 4, "published curves have no time"
    assert not opened.errors


@pytest.mark.slow
def test_the_video_plays(written, open_page):
    opened = open_page(written)
    video = opened.page.locator("video").first
    video.scroll_into_view_if_needed()
    video.evaluate("video => video.play()")
    opened.wait("document.querySelector('video').currentTime > 0.3")
    assert video.evaluate("video => [video.videoWidth, video.videoHeight]") == [96, 64]


@pytest.mark.slow
def test_coverage_has_its_numbers_as_csv_picture_and_table(written, open_page):
    opened = open_page(written)
    card = opened.page.locator("#coverage ~ div .card")
    card.scroll_into_view_if_needed()
    opened.wait("document.querySelectorAll('#coverage ~ div .heatmaplayer image').length === 2")
    with opened.page.expect_download() as waiting:
        card.get_by_role("button", name="CSV of coverage").click()
    rows = list(csv.DictReader(io.StringIO(Path(waiting.value.path()).read_text())))
    assert len(rows) == 2 * 8 * 8, "two pairs of 8 x 8 bins"
    assert [rows[0][name] for name in ("x", "y", "x_low", "x_high", "y_low")] == [
        "observation 0",
        "action 1",
        "-1",
        "-0.75",
        "-1",
    ]
    assert rows[-1]["y"] == "action 2"
    assert sum(float(row["policy"]) > 0 for row in rows) == 2 * 22, "the diagonal and its neighbours"
    with opened.page.expect_download() as waiting:
        card.get_by_role("button", name="PNG of coverage").click()
    assert Path(waiting.value.path()).read_bytes().startswith(b"\x89PNG")
    assert "support replay" in card.locator("details table").inner_text()
    assert not opened.errors


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """A page of a sweep whose steps build on each other, on two tasks."""
    root = tmp_path_factory.mktemp("chain")
    sweep = built_in("ablation/architecture", laptop=True)
    for trial in sweep.trials(root / "sweep"):
        agent = {name.removeprefix("agent."): value for name, value in trial.settings.items() if "agent" in name}
        if trial.seed == 0 and trial.variant < "e":
            record_run(trial.run, trial.task, rows=6, agent=agent)
    report({"flashsac": [root / "sweep"]}, root / "out")
    return (root / "out" / "index.html").as_uri()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_a_chain_has_its_returns_and_what_was_measured_inside(chain, open_page, width):
    opened = open_page(chain, width=width)
    section = opened.page.locator("section[aria-labelledby=ablations]")
    section.scroll_into_view_if_needed()
    assert section.locator("h3.part").all_inner_texts() == ["a_MLP to d_rmsnorm, step by step"]
    assert section.locator("h4.part").all_inner_texts() == ["dmc:walker-walk", "mujoco:HalfCheetah-v4"]
    titles = section.locator(".card h3").all_inner_texts()
    assert titles == ["return of the evaluated policy", "condition number of the critic loss"] * 2
    labels = section.locator(".legend button").all_inner_texts()
    assert labels == [f"{name}, 1 seed" for name in ("a_MLP", "b_residual", "c_batchnorm", "d_rmsnorm")]
    assert section.locator(".steps li").first.inner_text().split() == ["b_residual:", "--agent.residual"]
    for plot in section.locator(".plot").all():
        plot.scroll_into_view_if_needed()
    plots = "[...document.querySelectorAll('section[aria-labelledby=ablations] .plot')]"
    drawn = f"{plots}.map(plot => plot.querySelectorAll('.trace').length)"
    opened.wait(f"JSON.stringify({drawn}) === '[4,4,4,4]'")
    section.locator(".legend button").first.click()
    opened.wait(f"JSON.stringify({drawn}) === '[3,3,3,3]'")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not opened.errors


@pytest.mark.slow
def test_a_setting_varied_alone_is_shown_over_steps_and_over_time(written, open_page):
    opened = open_page(written)
    section = opened.page.locator("section[aria-labelledby=ablations]")
    assert section.locator("h3.part").all_inner_texts() == ["--agent.batch-size", "--agent.discount"]
    titles = section.locator(".card h3").all_inner_texts()
    over = [f"return of the evaluated policy over {axis}" for axis in ("environment steps", "training time (s)")]
    assert titles == over * 4, "two settings, two tasks"
    section.locator(".plot").nth(1).scroll_into_view_if_needed()
    opened.wait(
        "document.querySelectorAll('section[aria-labelledby=ablations] .plot')[1].querySelector('.xtitle') !== null"
    )
    assert section.locator(".plot").nth(1).locator(".xtitle").text_content() == "training time (s)"
    assert not opened.errors


@pytest.mark.slow
def test_the_csv_of_a_figure_holds_its_numbers(written, open_page):
    opened = open_page(written)
    with opened.page.expect_download() as waiting:
        opened.page.get_by_role("button", name="CSV of mujoco:HalfCheetah-v4").first.click()
    rows = list(csv.DictReader(io.StringIO(waiting.value.path().read_text())))
    assert {row["kind"] for row in rows} == {"mean", "run", "published"}
    name = "--agent.batch-size 64, --agent.discount 0.99"
    ours = [row for row in rows if (row["name"], row["kind"], row["axis"]) == (name, "mean", "step")]
    assert len(ours) == 10
    finals = [(1000 + 50 * seed) * (1 - np.exp(-20 / 8)) + 20 * seed for seed in range(3)]
    assert float(ours[-1]["value"]) == pytest.approx(np.mean(finals), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_is_accessible_and_fits_a_phone(written, open_page, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    opened = open_page(written, width=width, color_scheme=scheme, bypass_csp=True)
    drawn(opened)
    for summary in opened.page.locator("details > summary").all()[:6]:
        summary.click()
    found = axe.run(opened.page).response["violations"]
    serious = [(one["id"], one["nodes"][0]["html"][:200]) for one in found if one["impact"] in ("serious", "critical")]
    assert not serious
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_the_keyboard_reaches_every_control(written, open_page):
    opened = open_page(written)
    drawn(opened)
    reached = []
    for _ in range(40):
        opened.page.keyboard.press("Tab")
        reached.append(opened.page.evaluate("document.activeElement.textContent"))
    assert reached[0] == "Skip to the figures"
    for control in ("Steps", "Time", "Published", "Dark", "Curves", "CSV", "PNG", "Numbers"):
        assert control in reached, control
    opened.page.locator("#theme").focus()
    opened.page.keyboard.press("Enter")
    assert opened.page.evaluate("document.documentElement.dataset.theme") == "dark"
    outline = opened.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "the focus can be seen"


@pytest.mark.slow
def test_markup_in_a_name_does_nothing(tmp_path, open_page):
    run = record_run(tmp_path / "run")
    report({EVIL: [run], "<b>%{x}</b>": [run]}, tmp_path / "out")
    opened = open_page((tmp_path / "out" / "index.html").as_uri())
    drawn(opened)
    assert opened.page.evaluate("window.hacked") is None
    assert EVIL in opened.page.locator(f"{CURVES} .legend").first.inner_text()
    assert opened.page.locator("img").count() == 0
    assert not opened.errors
