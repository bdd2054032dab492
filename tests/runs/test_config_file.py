"""config.json: what is read is what was written, or the copy in a checkpoint."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

import flashsac
from flashsac.errors import RunDirectoryError
from flashsac.runs.directory import Run, read_config, read_task_and_seed
from tests import toy_envs
from tests.helpers import edit_config, lose_newest_checkpoint, tiny_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    return tiny_run(tmp_path_factory.mktemp("runs") / "run", steps=200, checkpoint_every=100, eval=dict(every=0))


@pytest.fixture
def run(trained, tmp_path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_a_run_goes_on_after_any_of_200_flipped_bits(run):
    file = run / "config.json"
    content, (task, config) = file.read_bytes(), read_config(run)
    bits = random.Random(0)
    for _ in range(200):
        damaged = bytearray(content)
        damaged[bits.randrange(len(content))] ^= 1 << bits.randrange(8)
        file.write_bytes(bytes(damaged))
        assert (read_config(run), read_task_and_seed(run)) == ((task, config), (task, config.seed))
        opened = Run.open(run)
        opened.close()
        assert opened.task == task
        assert {**vars(opened.config), "run_dir": None} == {**vars(config), "run_dir": None}
        assert json.loads(file.read_bytes()) == json.loads(content), "it is written again"
        for aside in run.glob("config-damaged*"):
            aside.unlink()


def test_a_resumed_run_says_that_config_json_was_damaged_or_edited(run, capfd):
    lose_newest_checkpoint(run)
    file = run / "config.json"
    before = file.read_text()
    edited = before.replace('"steps": 200', '"steps": 300')
    file.write_text(edited)
    assert flashsac.resume(run, toy_envs.make_point).step == 200
    said = capfd.readouterr().out
    assert "is damaged or was edited by hand (its checksum is wrong). The settings of a run are fixed" in said
    assert "the copy in step-000000000100 is used; for other settings begin a new run" in said
    assert (run / "config-damaged.json").read_text() == edited
    assert file.read_text() == before


def test_a_missing_config_json_is_written_again(run):
    before = (run / "config.json").read_text()
    (run / "config.json").unlink()
    Run.open(run).close()
    assert (run / "config.json").read_text() == before


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('"steps": 200', '"steps": -5', "--steps must be at least 1, not -5"),
        ('"steps": 200', '"steps": 1' + "0" * 4000, "--steps must be at most"),
        ('"discount": 0.9', '"discount": NaN, "q": 0.9', "discount|'q'"),
        ('"value_max": 5.0', '"value_max": "5"', "--agent.value-max must be a number, not '5'"),
        ('"target_rate": 0.01', '"target_rate": NaN', "--agent.target-rate must lie in"),
        ('"video": false', '"video": [[]]', "--video must be true or false"),
        ('"engine": "auto"', '"engine": 3', "--env.engine must be text"),
        ('"options": []', '"options": [3]', "--env.options must be a list of texts"),
        ('"agent": {', '"agent": 3, "other": {', "of settings"),
        ('"task": "custom:make_point"', '"task": 3', "the task is 3"),
        ('"task":', '"tusk":', "'task'"),
        ('"task"', '"x": ' + "[" * 5000 + "]" * 5000 + ', "task"', "nested too deeply"),
    ],
)
def test_settings_are_checked_like_those_of_a_new_run(run, old, new, problem):
    """The checksum is right here, and no checkpoint has a copy: only the checks are left."""
    shutil.rmtree(run / "checkpoints")
    if '"x"' in new:  # too deep for the checksum too
        (run / "config.json").write_text((run / "config.json").read_text().replace(old, new, 1))
    else:
        edit_config(run, old, new)
    for read in (read_config, Run.open, lambda run: flashsac.resume(run, toy_envs.make_point)):
        with pytest.raises(RunDirectoryError, match=problem):
            read(run)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"\xff\xfe", b"\0" * 100, b'{"task": "x"', b'{"sha256": 1}'])
def test_what_is_no_config_is_replaced_or_refused(run, content):
    task, config = read_config(run)
    (run / "config.json").write_bytes(content)
    assert read_config(run) == (task, config)
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(RunDirectoryError, match="no checkpoint has a copy of it"):
        read_config(run)


def test_copies_of_two_runs_decide_nothing(run, tmp_path):
    other = tiny_run(tmp_path / "other", steps=300, checkpoint_every=0, eval=dict(every=0))
    shutil.copytree(other / "checkpoints" / "step-000000000300", run / "checkpoints" / "step-000000000300")
    (run / "config.json").write_text("{")
    with pytest.raises(RunDirectoryError, match="copies of it in the checkpoints are of no use"):
        read_config(run)
