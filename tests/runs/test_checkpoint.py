"""Checkpoints: whole or not at all, recognised when damaged, and never any code."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import warnings

import numpy as np
import pytest
import torch

import flashsac
from flashsac.core.agent import Agent
from flashsac.errors import CheckpointError, Diverged
from flashsac.policies.find import load_policy
from flashsac.runs.best import best_score
from flashsac.runs.checkpoint import CheckpointStore
from flashsac.runs.directory import Run
from flashsac.runs.seal import seal
from flashsac.runs.tree import flatten, unflatten
from flashsac.training.hooks import Hooks
from flashsac.training.start import resume_run
from tests import toy_envs
from tests.helpers import TINY, StopAt, checkpoint_steps, tiny_run

pytestmark = pytest.mark.slow


def test_trees_survive_exactly():
    tree = {
        "big": 2**127 + 1,
        "float": 0.1,
        "infinite": -float("inf"),
        "none": None,
        "nested": [{"tensor": torch.arange(3)}, (True, "text")],
        "array": np.array([1, 2**32 - 1], np.uint32),
    }
    tensors: dict[str, torch.Tensor] = {}
    text = json.dumps(flatten(tree, tensors))
    back = unflatten(json.loads(text), tensors)
    assert back["big"] == tree["big"]
    assert back["float"] == 0.1
    assert back["infinite"] == -float("inf")
    assert back["none"] is None
    assert torch.equal(back["nested"][0]["tensor"], torch.arange(3))
    assert back["nested"][1] == [True, "text"]
    assert back["array"].dtype == np.uint32
    assert back["array"].tolist() == [1, 2**32 - 1]


def test_objects_are_refused():
    with pytest.raises(TypeError, match="cannot save"):
        flatten({"x": object()}, {})


def test_newest_are_kept_and_replay_is_saved_piecewise(tmp_path):
    run = tiny_run(tmp_path / "run", steps=600, checkpoint_every=100)
    assert checkpoint_steps(run) == [600, 500]
    pieces = sorted(path.name for path in (run / "replay").iterdir())
    assert len(pieces) == 6, "each piece is written once, none is rewritten"
    assert (run / "checkpoints" / "best.safetensors").exists()


def test_a_damaged_checkpoint_is_recognised_and_the_one_before_it_used(tmp_path):
    run = tiny_run(tmp_path / "run", steps=400, checkpoint_every=100)
    state = run / "checkpoints" / "step-000000000400" / "state.safetensors"
    content = state.read_bytes()

    state.write_bytes(content[: len(content) // 2])  # truncated
    store = CheckpointStore(run, "custom:make_point")
    checkpoint, problems = store.load()
    assert checkpoint.step == 300
    assert "step-000000000400 is corrupt" in problems[0]

    assert (run / "checkpoints" / "damaged-step-000000000400").exists(), "put aside, not deleted"
    (run / "checkpoints" / "step-000000000300" / "manifest.json").write_text("{}")
    with pytest.raises(CheckpointError, match="no usable checkpoint"):
        store.load()


def test_a_checkpoint_that_is_damaged_again_is_put_aside_again(tmp_path):
    run = tiny_run(tmp_path / "run", steps=200, checkpoint_every=100)
    for _ in range(2):
        (run / "checkpoints" / "step-000000000200" / "state.safetensors").write_bytes(b"")
        assert flashsac.resume(run, toy_envs.make_point, quiet=True).step == 200
    names = sorted(path.name for path in (run / "checkpoints").glob("damaged-*"))
    assert names == ["damaged-step-000000000200", "damaged-step-000000000200-2"]


def test_a_single_flipped_bit_is_noticed(tmp_path):
    run = tiny_run(tmp_path / "run", steps=200, checkpoint_every=100)
    state = run / "checkpoints" / "step-000000000200" / "state.safetensors"
    content = bytearray(state.read_bytes())
    content[-5] ^= 1
    state.write_bytes(bytes(content))
    assert CheckpointStore(run, "custom:make_point").load()[0].step == 100


def test_a_damaged_piece_that_all_checkpoints_need_costs_only_its_transitions(tmp_path, capfd):
    run = tiny_run(tmp_path / "run", steps=400, checkpoint_every=100)
    oldest = sorted((run / "replay").iterdir())[0]
    oldest.write_bytes(b"damaged")
    assert flashsac.resume(run, toy_envs.make_point).step == 400
    assert "part of the replay is damaged" in capfd.readouterr().out


@pytest.mark.parametrize("overlap", [True, False])
def test_a_lost_replay_is_filled_again_before_anything_is_learned(tmp_path, capfd, monkeypatch, overlap):
    """By the policy, not at random; and the checkpoints written since say so too."""
    agent = TINY["agent"] | dict(updates_per_transition=0.75)  # some are owed when it stops
    settings = TINY | dict(agent=agent, env=dict(num_envs=2, overlap=overlap), eval=dict(every=0), checkpoint_every=0)
    run, sampled, hooks = tmp_path / "run", [], [StopAt(300, 380)]

    class Sampled(Hooks):
        def after_update(self, trainer, metrics):
            sampled.append(len(trainer.session.agent.replay))

    hooks.append(Sampled())
    assert flashsac.train("mujoco:Hopper-v4", run_dir=str(run), quiet=True, hooks=hooks, **settings).step == 302
    shutil.rmtree(run / "replay")
    monkeypatch.setattr(torch, "rand", lambda *_, **__: pytest.fail("an action at random"))
    sampled.clear()
    assert flashsac.resume(run, hooks=hooks).step == 382
    assert not sampled
    assert "0 transitions are left; learning goes on when there are 100 again" in capfd.readouterr().out
    assert flashsac.resume(run, hooks=hooks).step == 600, "nothing was lost now, but there was still too little"
    assert min(sampled) == 100


@pytest.fixture
def diverging(monkeypatch):
    """Networks that turn into NaN after sixty updates; nothing is learned from then on, unless somebody goes on."""
    update = Agent.update

    def broken(self, go_on=False):
        if self.updates < 60 or go_on:
            return update(self)
        for parameter in (*self.learner.actor_parameters, *self.learner.critic_parameters):
            parameter.data.fill_(float("nan"))
        self.updates += 1
        return {}

    monkeypatch.setattr(Agent, "update", broken)
    return broken


def test_networks_that_diverged_push_no_good_checkpoint_out(tmp_path, monkeypatch, diverging):
    settings = TINY | dict(checkpoint_every=100, keep_checkpoints=1, eval=dict(every=0), max_invalid=1.0, quiet=True)
    with pytest.raises(Diverged, match=r"NaN or Inf at step 400.*step-000000000300 is whole: flashsac resume"):
        flashsac.train(toy_envs.make_point, run_dir=str(tmp_path), **settings)
    assert checkpoint_steps(tmp_path) == [300]
    monkeypatch.undo()
    assert flashsac.resume(tmp_path, toy_envs.make_point, quiet=True).step == 600


def test_networks_that_diverged_are_not_the_best(tmp_path, diverging):
    """Every step costs something here, and NaN ends an episode with the first."""
    settings = TINY | dict(checkpoint_every=0, eval=dict(every=50, episodes=2), quiet=True)
    with pytest.raises(Diverged, match="NaN or Inf at step 350.*None was saved before"):
        flashsac.train(toy_envs.make_point, run_dir=str(tmp_path), **settings)
    assert best_score(tmp_path).value < 0
    assert np.isfinite(load_policy(tmp_path)(np.zeros(2))).all()


def test_an_update_that_fails_because_of_nan_says_so(tmp_path, monkeypatch, diverging):
    monkeypatch.setattr(Agent, "update", lambda self: diverging(self, go_on=self.updates > 60))
    with pytest.raises(Diverged, match="NaN or Inf at step 3"):
        flashsac.train(toy_envs.make_point, run_dir=str(tmp_path), quiet=True, **TINY | dict(eval=dict(every=0)))


def test_a_piece_deleted_while_training_is_written_again(tmp_path):
    run = tiny_run(tmp_path / "run", steps=200, checkpoint_every=0)
    trainer = resume_run(Run.open(run), toy_envs.make_point, quiet=True)
    for piece in (run / "replay").iterdir():
        piece.unlink()
    trainer.save(fatal=True)
    trainer.close()
    assert CheckpointStore(run, "custom:make_point").load()[1] == []


def test_a_missing_replay_piece_is_noticed(tmp_path):
    run = tiny_run(tmp_path / "run", steps=300, checkpoint_every=100)
    newest = sorted((run / "replay").iterdir())[-1]
    newest.unlink()
    checkpoint, problems = CheckpointStore(run, "custom:make_point").load()
    assert checkpoint.step == 200
    assert "missing" in problems[0]


def test_arrays_that_may_not_be_written_are_saved_without_a_warning():
    array = np.arange(6.0).reshape(2, 3)[:, ::-1]
    array.flags.writeable = False  # as JAX hands them out
    tensors: dict[str, torch.Tensor] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = flatten({"x": array}, tensors)
    assert np.array_equal(unflatten(tree, tensors)["x"], array)


def test_resume_says_what_was_wrong(tmp_path, capfd):
    run = tiny_run(tmp_path / "run", steps=300, checkpoint_every=100)
    state = run / "checkpoints" / "step-000000000300" / "state.safetensors"
    state.write_bytes(state.read_bytes()[:100])
    result = flashsac.resume(run, toy_envs.make_point)
    assert result.step == 300
    assert "warning: step-000000000300 is corrupt" in capfd.readouterr().out


def test_checkpoint_of_another_task(tmp_path):
    run = tiny_run(tmp_path / "run", steps=200, checkpoint_every=100)
    with pytest.raises(CheckpointError, match="was made for custom:make_point, not mujoco:Hopper-v4"):
        CheckpointStore(run, "mujoco:Hopper-v4").load()


def test_checkpoint_of_another_format(tmp_path):
    run = tiny_run(tmp_path / "run", steps=200, checkpoint_every=0)
    manifest = run / "checkpoints" / "step-000000000200" / "manifest.json"
    content = json.loads(manifest.read_text().splitlines()[0])
    manifest.write_text(seal(content | {"format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        CheckpointStore(run, "custom:make_point").load()


def test_half_written_checkpoints_are_ignored(tmp_path):
    run = tiny_run(tmp_path / "run", steps=200, checkpoint_every=100)
    shutil.copytree(run / "checkpoints" / "step-000000000200", run / "checkpoints" / ".writing-step-000000000300")
    assert CheckpointStore(run, "custom:make_point").load()[0].step == 200


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


def test_loading_never_executes_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb = tmp_path / "policy.safetensors"
    bomb.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match="corrupt or no policy"):
        load_policy(bomb)
    torch.save({"x": Bomb()}, bomb)
    with pytest.raises(CheckpointError, match="corrupt or no policy"):
        load_policy(bomb)
    assert not (tmp_path / "exploded").exists()


def test_what_mjlab_saves_is_found_beside_it(tmp_path):
    torch.save({"weights": {}}, tmp_path / "model_9.pt")
    with pytest.raises(CheckpointError, match=f"take the run beside it: {tmp_path / 'flashsac'}"):
        load_policy(tmp_path / "model_9.pt")


def test_foreign_safetensors_is_no_policy(tmp_path):
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(CheckpointError, match="not a flashsac policy"):
        load_policy(tmp_path / "other.safetensors")
