"""The end of a run says what came out, how sure that is, and which command comes next."""

from __future__ import annotations

import types

import gymnasium
import pytest

import flashsac
from flashsac.sims.user_names import name_of
from tests import toy_envs
from tests.helpers import TINY, lose_newest_checkpoint, tiny_run


def make_env() -> gymnasium.Env:
    return gymnasium.make("Pendulum-v1")


def test_training_from_python_ends_with_a_summary(tmp_path, capsys):
    result = flashsac.train(make_env, run_dir=str(tmp_path / "run"), **TINY)
    said = capsys.readouterr().out
    assert "learning starts at step 100; 125 updates in all" in said
    row = result.row
    assert f"{row['eval_return']:.1f} ± {row['eval_return_std']:.1f} over 2 episodes" in said
    assert "note: the run made 125 updates" in said
    assert "train for 60,100 steps" in said, "100 random steps, and 15,000 updates at a quarter of an update a step"
    assert "flashsac eval" in said
    assert "flashsac play" not in said, "nothing says that it can draw"


@pytest.mark.parametrize(("num_envs", "steps"), [(8, 300), (70, 600), (300, 150)])
def test_the_updates_announced_are_those_that_are_made(tmp_path, capsys, num_envs, steps):
    """A run takes whole steps of all environments, also where one is more than the run was given."""
    settings = TINY | dict(steps=steps, env=dict(num_envs=num_envs), eval=dict(every=0))
    result = flashsac.train(make_env, run_dir=str(tmp_path / "run"), **settings)
    assert f"{result.row['updates']:.0f} updates in all" in capsys.readouterr().out


def test_a_resumed_run_does_not_announce_a_start_that_is_past(tmp_path, capsys):
    run = tiny_run(tmp_path / "run", steps=600, checkpoint_every=200)
    lose_newest_checkpoint(run)
    capsys.readouterr()
    result = flashsac.resume(run, toy_envs.make_point)
    said = capsys.readouterr().out
    assert f"learning goes on; {result.row['updates']:.0f} updates in all" in said
    assert "learning starts" not in said


def test_quiet_runs_say_nothing_and_results_are_short(tmp_path, capsys):
    result = flashsac.train(make_env, run_dir=str(tmp_path / "run"), quiet=True, **TINY)
    assert capsys.readouterr().out == ""
    assert len(str(result)) < 400
    assert "run_dir" in str(result)


def test_a_run_with_a_video_offers_more_of_it(tmp_path, capsys):
    flashsac.train("gym:Pendulum-v1", run_dir=str(tmp_path / "run"), **TINY | dict(video=True))
    assert "flashsac play" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("task", "named"),
    [
        (toy_envs.make_point, "tests.toy_envs:make_point"),
        (toy_envs.PointEnv, "tests.toy_envs:PointEnv"),
        (lambda: toy_envs.PointEnv(), "module:function"),
    ],
)
def test_the_next_commands_name_a_function_that_can_be_imported(tmp_path, capsys, task, named):
    result = flashsac.train(task, run_dir=str(tmp_path / "run"), **TINY | dict(eval=dict(every=0)))
    assert f"flashsac eval {tmp_path / 'run'} --task {named}\n" in capsys.readouterr().out
    assert flashsac.resume(result.run_dir, task).was_finished
    said = capsys.readouterr().out
    assert f"--steps 1200 --task {named}\n" in said
    assert f"flashsac eval {tmp_path / 'run'} --task {named}\n" in f"{said}\n"


def test_a_function_of_the_script_itself_is_not_named():
    """Another process would look for it in a module called __main__."""
    script = types.ModuleType("__main__")
    exec("def make_env(): ...", vars(script))
    assert name_of(script.make_env) is None
    assert name_of(toy_envs.PointEnv().step) is None
    assert name_of(toy_envs.PointEnv()) is None
