"""What does not belong into a run directory: stray folders, other runs' checkpoints, manifests that somebody has written."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from pathlib import Path

import pytest

import flashsac
from flashsac.errors import CheckpointError
from flashsac.policies.find import load_policy
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.seal import seal
from flashsac.training.start import new_run
from tests import toy_envs
from tests.helpers import TINY, StopAt, checkpoint_steps, lose_newest_checkpoint, tiny_run

pytestmark = pytest.mark.slow
NEWEST = "step-000000000200"


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    return tiny_run(tmp_path_factory.mktemp("runs") / "run", steps=200, checkpoint_every=100, eval=dict(every=0))


@pytest.fixture
def run(trained, tmp_path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def test_copies_and_files_among_the_checkpoints_are_ignored(run):
    checkpoints = run / "checkpoints"
    for name in (f"{NEWEST} (copy)", "step-x", "step-", "step-000000000900-old2", "policy-x.safetensors"):
        shutil.copytree(checkpoints / NEWEST, checkpoints / name)
    (checkpoints / "step-000000000800").write_text("a file")
    (checkpoints / "policy-12.safetensors").write_text("no policy")
    assert load_policy(run).task == "custom:make_point"
    assert checkpoint_steps(run) == [200, 100]
    lose_newest_checkpoint(run)
    assert flashsac.resume(run, toy_envs.make_point, quiet=True).step == 200


def test_a_checkpoint_of_another_run_is_put_aside(run, tmp_path, capfd):
    other = tiny_run(tmp_path / "other", steps=300, checkpoint_every=0, eval=dict(every=0), seed=1)
    shutil.copytree(other / "checkpoints" / "step-000000000300", run / "checkpoints" / "step-000000000300")
    lose = run / "checkpoints" / NEWEST
    shutil.rmtree(lose)
    assert flashsac.resume(run, toy_envs.make_point).step == 200
    assert "step-000000000300 was made by another run of custom:make_point: it is not loaded" in capfd.readouterr().out
    assert (run / "checkpoints" / "other-run-step-000000000300").exists()


def test_a_run_that_continues_another_one_owns_the_copies(run, tmp_path):
    settings = {name: value for name, value in TINY.items() if name != "preset"} | {"eval": dict(every=0)}
    config = flashsac.configure(toy_envs.make_point, TINY["preset"], run_dir=str(tmp_path / "longer"), **settings)
    assert new_run(toy_envs.make_point, config, quiet=True, continue_from=run).train().step == 600
    first, second = (json.loads((path / "config.json").read_text())["id"] for path in (run, tmp_path / "longer"))
    assert first != second
    lose_newest_checkpoint(tmp_path / "longer")
    assert flashsac.resume(tmp_path / "longer", toy_envs.make_point, quiet=True).step == 600


def nested(depth: int) -> dict:
    tree: dict = {"value": 1}
    for _ in range(depth):
        tree = {"list": [tree]}
    return tree


def state_with(*path_and_value):
    *path, value = path_and_value

    def change(manifest):
        node = manifest["tree"]
        for name in path:
            node = node["dict"][name]
        node.clear()
        node.update(value)

    return change


CHANGES = {
    "no step": lambda m: m.pop("step"),
    "step is NaN": lambda m: m.update(step=float("nan")),
    "step is negative": lambda m: m.update(step=-1),
    "step is huge": lambda m: m.update(step=10**400),
    "no task": lambda m: m.pop("task"),
    "no files": lambda m: m.pop("files"),
    "files is a list": lambda m: m.update(files=[1]),
    "the state has no checksum": lambda m: m["files"].pop("state.safetensors"),
    "a file above": lambda m: m["files"].update({"../../config.json": "0" * 64}),
    "an absolute file": lambda m: m["files"].update({"/dev/zero": "0" * 64}),
    "a file with a NUL": lambda m: m["files"].update({"a\0b": "0" * 64}),
    "a digest is a number": lambda m: m["files"].update({"state.safetensors": 7}),
    "no pieces": lambda m: m.pop("pieces"),
    "pieces is a number": lambda m: m.update(pieces=7),
    "a piece is a text": lambda m: m.update(pieces=["x"]),
    "a piece above": lambda m: m["pieces"][0].update(file="../config.json"),
    "an absolute piece": lambda m: m["pieces"][0].update(file="/dev/zero"),
    "a piece without its end": lambda m: m["pieces"][0].pop("stop"),
    "a piece that ends before it begins": lambda m: m["pieces"][0].update(stop=0),
    "a piece at NaN": lambda m: m["pieces"][0].update(first=float("nan")),
    "run is a list": lambda m: m.update(run=[]),
    "no tree": lambda m: m.pop("tree"),
    "a tree of text": lambda m: m.update(tree="x"),
    "a deep tree": lambda m: m.update(tree=nested(400)),
    "a tensor that is not there": state_with("obs", {"tensor": "/nowhere"}),
    "no agent": lambda m: m["tree"]["dict"].pop("agent"),
    "no spec": lambda m: m["tree"]["dict"].pop("spec"),
    "owed is NaN": state_with("owed", {"value": float("nan")}),
    "seconds is a text": state_with("seconds", {"value": "x"}),
    "best is a dict": state_with("best", {"dict": {}}),
    "updates is negative": state_with("agent", "updates", {"value": -1}),
    "head is NaN": state_with("agent", "replay", "head", {"value": float("nan")}),
    "holes are none": state_with("agent", "replay", "holes", {"list": [{"value": 1}]}),
    "a huge hole": state_with("agent", "replay", "holes", {"list": [{"list": [{"value": 0}, {"value": 10**15}]}]}),
    "no noise": state_with("agent", "noise", {"dict": {}}),
    "episodes are none": state_with("episodes", {"dict": {}}),
    "another random state": state_with("agent", "acting_rng", {"value": 3}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_manifest_that_somebody_wrote_is_refused(run, change):
    """With a right checksum. All is refused with a message, or the checkpoint before it is used."""
    edit_manifest(run, change)
    with contextlib.suppress(CheckpointError):
        flashsac.resume(run, toy_envs.make_point, quiet=True)
        assert (run / "checkpoints" / f"damaged-{NEWEST}").exists()


def edit_manifest(run: Path, change) -> None:
    file = run / "checkpoints" / NEWEST / "manifest.json"
    manifest = json.loads(file.read_text().splitlines()[0])
    change(manifest)
    # As due for an evaluation, it is loaded although the run is finished.
    if isinstance(manifest.get("tree"), dict) and "dict" in manifest["tree"]:
        manifest["tree"]["dict"]["evaluation_due"] = {"value": True}
    file.write_text(seal(manifest))


def test_a_manifest_of_a_hundred_thousand_brackets_is_refused(run):
    file = run / "checkpoints" / NEWEST / "manifest.json"
    deep = '{"format": 1, "tree": ' + "[" * 100_000 + "]" * 100_000 + "}"
    file.write_text(f"{deep}\n{hashlib.sha256(deep.encode()).hexdigest()}\n")
    checkpoint, problems = CheckpointStore(run, "custom:make_point").load()
    assert checkpoint.step == 100
    assert "nested too deeply" in problems[0]


def test_links_in_a_run_directory_are_not_followed(run, tmp_path):
    """A policy, a log, and a checkpoint that lie elsewhere stay what they are."""
    mine = tmp_path / "mine"
    mine.write_text("precious")
    elsewhere = Path(shutil.move(run / "checkpoints" / "step-000000000100", tmp_path / "elsewhere"))
    (run / "checkpoints" / "step-000000000100").symlink_to(elsewhere)
    lose_newest_checkpoint(run)
    for name in (
        "checkpoints/best.safetensors",
        "checkpoints/best.json",
        "replay-ring",
        f"checkpoints/.writing-{NEWEST}",
    ):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(mine)
    rows = (run / "metrics.csv").rename(tmp_path / "rows.csv")
    (run / "metrics.csv").symlink_to(rows)
    kept = rows.read_text()
    edited = (run / "config.json").read_text().replace('"keep_checkpoints": 2', '"keep_checkpoints": 1')
    content = json.loads(edited.replace('"every": 0', '"every": 50'))
    del content["sha256"], content["id"]
    (run / "config.json").write_text(json.dumps(content))  # as version 0.1.0 wrote it
    manifest = elsewhere / "manifest.json"
    manifest.write_text(seal({k: v for k, v in json.loads(manifest.read_text().splitlines()[0]).items() if k != "run"}))
    assert flashsac.resume(run, toy_envs.make_point, quiet=True).step == 200
    assert checkpoint_steps(run) == [200], "the link is gone"
    assert (elsewhere / "state.safetensors").exists()
    assert mine.read_text() == "precious"
    assert rows.read_text() == kept
    assert load_policy(run, "best").task == "custom:make_point"


def test_checkpoints_on_a_larger_disk(run, tmp_path):
    shutil.move(run / "checkpoints", tmp_path / "larger")
    (run / "checkpoints").symlink_to(tmp_path / "larger")
    lose_newest_checkpoint(run)
    assert flashsac.resume(run, toy_envs.make_point, quiet=True).step == 200
    assert (run / "checkpoints").is_symlink()
    assert (tmp_path / "larger" / NEWEST).exists()


@pytest.mark.parametrize("content", ["[]", "{}", '{"return": "x"}', '{"return": null}', "[" * 9999, '{"return": NaN}'])
def test_best_json_that_cannot_be_read_costs_nothing(run, content):
    (run / "checkpoints" / "best.json").write_text(content)
    assert flashsac.resume(run, toy_envs.make_point, quiet=True).step == 200


def test_one_damaged_piece_costs_its_own_transitions(tmp_path, capfd):
    run = tiny_run(tmp_path / "run", steps=400, checkpoint_every=100, eval=dict(every=0))
    lose_newest_checkpoint(run)
    for path in sorted((run / "checkpoints").glob("step-*"))[:-1]:
        shutil.rmtree(path)
    middle = sorted((run / "replay").iterdir())[1]
    content = bytearray(middle.read_bytes())
    content[-5] ^= 1
    middle.write_bytes(bytes(content))
    assert flashsac.resume(run, toy_envs.make_point, hooks=[StopAt(350)]).step == 352
    assert "part of the replay is damaged and was dropped; 200 transitions are left" in capfd.readouterr().out
    assert flashsac.resume(run, toy_envs.make_point).step == 400
    assert "part of the replay" not in capfd.readouterr().out, "it is said once"
