"""`flashsac watch`: it follows runs that go on, reads only, and answers nobody else."""

from __future__ import annotations

import contextlib
import csv
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading

import pytest

from flashsac.errors import FlashSACError
from flashsac.experiments.page import figures, live
from flashsac.experiments.page.live import LiveData
from flashsac.experiments.page.server import PageServer
from flashsac.experiments.report import report
from tests.experiments.recorded_runs import TASK, add_coverage, add_video, add_wall_clock, append_rows, record_run
from tests.helpers import PATIENCE, cli, command, environment


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch):
    """Every request reads the runs anew."""
    monkeypatch.setattr(live, "REST", 0.0)


@contextlib.contextmanager
def serving(root, host="127.0.0.1", every=0.5):
    with PageServer(host, 0, LiveData({"flashsac": [root]}), every) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=PATIENCE)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def data(server):
    answer, body = ask(server, "/data.json")
    assert answer.status == 200
    return json.loads(body)


def tree(root):
    """Every file below a directory, with its content and the time of its last change."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_runs_come_grow_and_go(tmp_path):
    root = tmp_path / "runs"
    with serving(root) as server:
        assert data(server)["runs"] == 0, "the directory is not there yet"
        first = record_run(root / "0", rows=4)
        shown = data(server)
        assert shown["tasks"][0]["figure"]["lines"][0]["runs"][0]["step"] == [1000, 2000]
        append_rows(first, range(5, 9))
        record_run(root / "1", seed=1, rows=2)
        shown = data(server)
        runs = shown["tasks"][0]["figure"]["lines"][0]["runs"]
        assert [run["step"][-1] for run in runs] == [4000, 1000]
        shutil.rmtree(first)
        assert data(server)["runs"] == 1
        shutil.rmtree(root)
        assert data(server)["tasks"] == []


def test_a_run_is_shown_before_its_first_evaluation(tmp_path):
    record_run(tmp_path / "run", rows=1)
    with serving(tmp_path) as server:
        shown = data(server)
    assert shown["tasks"][0]["figure"]["lines"][0]["runs"] == []
    assert [figure["title"] for figure in shown["tasks"][0]["metrics"]] == ["q", "critic_loss"]
    assert shown["overview"]["tables"][0]["rows"][0][:4] == [TASK, "flashsac", "1", "500"]


def test_half_written_rows_and_damaged_files_are_survived(tmp_path):
    whole = record_run(tmp_path / "whole", rows=4)
    bad = record_run(tmp_path / "bad", seed=1, rows=4)
    (bad / "config.json").write_text("{")
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "config.json").write_text('{"task": "mujoco:Ant-v4", "config": {"seed": 0}}')
    (empty / "metrics.csv").touch()
    with (whole / "metrics.csv").open("ab") as file:
        file.write(b"2500,7")
    (whole / "wall_clock.json").write_text('{"simulation"')
    with serving(tmp_path) as server:
        shown = data(server)
    assert shown["runs"] == 2
    assert any(str(bad) in note and note.startswith("left out") for note in shown["notes"])
    cheetah = next(task for task in shown["tasks"] if task["task"] == TASK)
    assert cheetah["figure"]["lines"][0]["runs"][0]["step"] == [1000, 2000]


def test_watching_writes_nothing(tmp_path):
    run = record_run(tmp_path / "run", rows=4)
    add_video(run)
    before = tree(tmp_path)
    with serving(tmp_path) as server:
        for path in ("/", "/data.json", "/plotly.js", "/" + data(server)["videos"][0]["src"]):
            assert ask(server, path)[0].status == 200
    assert tree(tmp_path) == before


def test_files_that_have_not_changed_are_not_read_again(tmp_path, monkeypatch):
    for seed in range(2):
        record_run(tmp_path / str(seed), seed=seed, rows=4)
    read = []
    read_run = live.read_run
    monkeypatch.setattr(live, "read_run", lambda path: (read.append(path.name), read_run(path))[1])
    follower = LiveData({"flashsac": [tmp_path]})
    assert follower.current() == follower.current()
    assert read == ["0", "1"]
    append_rows(tmp_path / "1", range(5, 7), seed=1)
    follower.current()
    assert read == ["0", "1", "1"]


def test_each_file_is_read_anew_only_after_it_has_changed(tmp_path):
    """Content that changed while size and time stayed the same is not looked at; with another time it is."""
    run = record_run(tmp_path / "run", rows=4)
    add_coverage(run)
    add_wall_clock(run)
    follower = LiveData({"flashsac": [tmp_path]})
    before = follower.current()
    for name in ("coverage/coverage.json", "wall_clock.json"):
        file = run / name
        time = file.stat().st_mtime_ns
        file.write_text(file.read_text().replace("0.8", "0.7").replace("two cores", "six cores"))
        os.utime(file, ns=(time, time))
        assert follower.current() == before, name
        os.utime(file, ns=(time, time + 1))
        after = follower.current()
        assert after != before, name
        before = after
    shown = json.loads(before.body)
    assert shown["coverage"][0]["pairs"][0]["numbers"]["support replay"] == 0.7
    assert "six cores" in shown["wall_clock"]["rows"][0]


def test_after_a_change_only_its_line_is_computed_anew(tmp_path, monkeypatch):
    """Each mean over the runs of a line goes through `band`."""
    for i, size in enumerate((64, 128, 256)):
        record_run(tmp_path / str(i), rows=4, agent=dict(batch_size=size))
    computed = []
    band = figures.band
    monkeypatch.setattr(
        figures, "band", lambda curves, axis: (computed.append(curves[0].step[-1]), band(curves, axis))[1]
    )
    follower = LiveData({"flashsac": [tmp_path]})
    follower.current()
    assert len(computed) == 6, "three lines over two axes"
    append_rows(tmp_path / "1", range(5, 9))
    follower.current()
    assert computed[6:] == [4000, 4000]


def test_scores_over_tasks_are_on_the_page(tmp_path):
    for i, task in enumerate((TASK, "mujoco:Hopper-v4")):
        for seed in range(3):
            record_run(tmp_path / f"{i}{seed}", task, seed, rows=4)
    follower = LiveData({"flashsac": [tmp_path]})
    first = json.loads(follower.current().body)["overview"]
    assert [figure["title"] for figure in first["figures"]] == ["Aggregate score", "Performance profile"]
    assert first["tables"][0]["columns"][2] == "Interquartile mean"
    report({"flashsac": [tmp_path]}, tmp_path / "out")
    with (tmp_path / "out" / "scores.csv").open(newline="") as file:
        value = float(next(csv.DictReader(file))["value"])
    assert first["tables"][0]["rows"][0][2].startswith(f"{value:.3g} (")
    append_rows(tmp_path / "00", range(5, 9))
    assert json.loads(follower.current().body)["overview"]["tables"][0]["rows"] != first["tables"][0]["rows"]
    record_run(tmp_path / "new", "mujoco:Ant-v4", rows=1)
    assert json.loads(follower.current().body)["overview"]["figures"], "a run before its first evaluation has no say"


def test_a_reading_that_fails_is_answered_with_its_reason_and_shown(tmp_path, capfd, monkeypatch):
    record_run(tmp_path / "run", rows=4)
    with serving(tmp_path) as server:
        data(server)
        monkeypatch.setattr(live, "compare", lambda groups, say: 1 / 0)
        for _ in range(2):
            answer, body = ask(server, "/data.json")
            assert (answer.status, body) == (500, b"the runs cannot be read: ZeroDivisionError: division by zero")
        monkeypatch.undo()
        assert data(server)["runs"] == 1, "and the next reading may succeed"
    assert capfd.readouterr().err.count("ZeroDivisionError: division by zero\n") == 1, "printed once"


def test_published_curves_without_a_column_are_refused_at_the_start(tmp_path):
    file = tmp_path / "published.csv"
    file.write_text("method,metric,env_step,seeds,mean,ci_low,ci_high\nPPO,avg_return,0,5,1,,\n")
    done = cli("watch", "--published", str(file), "--port", "0", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "published.csv lacks the column task" in done.stderr


def test_after_a_reading_the_runs_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(live, "REST", 1e9)
    record_run(tmp_path / "0", rows=4)
    follower = LiveData({"flashsac": [tmp_path]})
    first = follower.current()
    record_run(tmp_path / "1", seed=1, rows=4)
    assert follower.current() == first


def test_unchanged_data_is_not_sent_again(tmp_path):
    run = record_run(tmp_path / "run", rows=4)
    with serving(tmp_path) as server:
        tag = ask(server, "/data.json")[0].headers["ETag"]
        answer, body = ask(server, "/data.json", If_None_Match=tag)
        assert (answer.status, body) == (304, b"")
        append_rows(run, range(5, 7))
        assert ask(server, "/data.json", If_None_Match=tag)[0].status == 200


def test_parts_of_a_video_are_sent(tmp_path):
    content = add_video(record_run(tmp_path / "run", rows=4)).read_bytes()
    with serving(tmp_path) as server:
        path = "/" + data(server)["videos"][0]["src"]
        answer, body = ask(server, path)
        assert (answer.status, body, answer.headers["Content-Type"]) == (200, content, "video/mp4")
        for asked, first, last in (
            ("bytes=0-9", 0, 9),
            ("bytes=100-", 100, len(content) - 1),
            ("bytes=-7", len(content) - 7, len(content) - 1),
            ("bytes=5-99999999", 5, len(content) - 1),
        ):
            answer, body = ask(server, path, Range=asked)
            assert (answer.status, body) == (206, content[first : last + 1])
            assert answer.headers["Content-Range"] == f"bytes {first}-{last}/{len(content)}"
        for asked in ("bytes=99999999-", "bytes=9-2", "bytes=-", "lines=1-2"):
            assert ask(server, path, Range=asked)[0].status == 416
        answer, body = ask(server, path, method="HEAD")
        assert (answer.headers["Content-Length"], body) == (str(len(content)), b"")


def test_no_other_file_can_be_reached(tmp_path):
    run = record_run(tmp_path / "runs" / "run", rows=4)
    add_video(run)
    (tmp_path / "secret.mp4").write_text("secret")
    (run / "videos" / "link.mp4").symlink_to(tmp_path / "secret.mp4")
    with serving(tmp_path / "runs") as server:
        data(server)
        for path in (
            "/videos/../secret.mp4",
            "/videos/%2e%2e/secret.mp4",
            "/../../../../etc/passwd",
            "//etc/passwd",
            f"/{run}/config.json",
            "/videos/link.mp4",
            "/run/videos/final.mp4",
            "/videos/",
            "/index.html/../config.json",
        ):
            answer, body = ask(server, path)
            assert (answer.status, b"secret" in body) == (404, False), path
        assert ask(server, "/data.json", method="POST")[0].status == 501


def test_names_of_other_machines_are_refused(tmp_path):
    """A web page elsewhere may point its own name at 127.0.0.1, and would read what lies here."""
    with serving(tmp_path) as server:
        port = server.server_address[1]
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST", f"[::1]:{port}"):
            assert ask(server, "/data.json", Host=host)[0].status == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "", "[", "a:b:c"):
            assert ask(server, "/data.json", Host=host)[0].status == 403, host
        assert ask(server, "/")[0].headers["Cross-Origin-Resource-Policy"] == "same-origin"
    with serving(tmp_path, host="0.0.0.0") as server:
        assert ask(server, "/data.json", Host="workstation:8000")[0].status == 200


def test_a_port_in_use_is_a_clear_error(tmp_path):
    with (
        serving(tmp_path) as server,
        pytest.raises(FlashSACError, match="cannot be listened on .* --port 0 takes a free one"),
    ):
        PageServer("127.0.0.1", server.server_address[1], LiveData({}), 1.0)


@pytest.mark.slow
def test_the_command_prints_its_address_and_ends_quietly(tmp_path):
    record_run(tmp_path / "runs" / "run", rows=4)
    process = subprocess.Popen(
        command("watch", "--port", "0"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    assert line.startswith("watching runs on http://127.0.0.1:")
    port = int(line.split(":")[2].split("/")[0])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", "/data.json")
    assert json.loads(connection.getresponse().read())["runs"] == 1
    connection.close()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.slow
def test_impossible_options(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = cli("watch", "--port", port, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert f"127.0.0.1:{port} cannot be listened on" in done.stderr
    assert "--port must lie in [0, 65535]" in cli("watch", "--port", "70000", cwd=tmp_path, check=False).stderr
    assert (
        "no.csv cannot be read (No such file or directory)"
        in cli("watch", "--published", "no.csv", cwd=tmp_path, check=False).stderr
    )
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_the_page_follows_its_runs_in_a_browser(tmp_path, open_page):
    first = record_run(tmp_path / "0", rows=4)
    add_video(first)
    ends = "document.querySelector('#curves ~ div .plot').getAttribute('aria-label')"
    with serving(tmp_path) as server:
        opened = open_page(server.address)
        opened.wait("document.querySelector('#curves ~ div .scatterlayer .trace') !== null")
        before = opened.page.evaluate(ends)
        append_rows(first, range(5, 21))
        opened.wait(f"{ends} !== {json.dumps(before)}")
        record_run(tmp_path / "1", seed=1)
        opened.wait("document.getElementById('about').textContent === '2 runs of 1 task.'")
        assert "updated" in opened.page.locator("#live").inner_text()
        opened.page.locator("video").first.evaluate("video => video.play()")
        opened.wait("document.querySelector('video').currentTime > 0.3")
        opened.page.locator("video").first.evaluate("video => { video.currentTime = 2 }")
        opened.wait("document.querySelector('video').currentTime >= 2")
        shutil.rmtree(tmp_path / "1")
        opened.wait("document.getElementById('about').textContent === '1 run of 1 task.'")
        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(live, "compare", lambda groups, say: 1 / 0)
            opened.wait("document.getElementById('live').textContent.startsWith('the runs cannot be read: ZeroDiv')")
        opened.wait("document.getElementById('live').textContent.startsWith('updated')")
        opened.errors = [error for error in opened.errors if "500" not in error]
        asked = [address for address in opened.requests if not address.startswith((server.address, "data:"))]
        assert not asked
        assert not opened.errors
        address = server.address
    opened.wait("document.getElementById('live').textContent.startsWith('flashsac watch does not answer')")
    assert opened.page.evaluate("document.querySelectorAll('.scatterlayer .trace').length") > 0, "what it had stays"
    shutil.rmtree(first)
    record_run(tmp_path / "2", seed=2)
    again = PageServer("127.0.0.1", int(address.split(":")[2].strip("/")), LiveData({"flashsac": [tmp_path]}), 0.5)
    thread = threading.Thread(target=again.serve_forever, daemon=True)
    with again:
        thread.start()
        opened.wait("document.getElementById('live').textContent.startsWith('updated')")
        again.shutdown()
        thread.join()
