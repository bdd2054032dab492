"""Measuring and filming what was trained, by whoever trained it and however it is named."""

from __future__ import annotations

import numpy as np
import pytest

import flashsac
from flashsac.errors import CheckpointError, FlashSACError
from flashsac.policies.find import locate_policy, policy_file
from tests import toy_envs
from tests.helpers import cli, tiny_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Begun from Python, on an environment of one's own."""
    return tiny_run(tmp_path_factory.mktemp("trained") / "run", checkpoint_every=200)


def test_evaluate_a_run_begun_from_python(run):
    result = flashsac.evaluate(run, toy_envs.make_point, episodes=3)
    assert result.returns.shape == (3,)
    assert (result.lengths == 20).all()
    again = flashsac.evaluate(flashsac.load_policy(run), "tests.toy_envs:make_point", episodes=3)
    assert np.array_equal(result.returns, again.returns)
    one = flashsac.evaluate(run, toy_envs.PointEnv(), episodes=3)
    assert np.array_equal(result.returns, one.returns)
    with pytest.raises(FlashSACError, match="trained from Python.*--task module:function"):
        flashsac.evaluate(run)


def test_task_on_the_command_line(run, tmp_path):
    done = cli("eval", str(run), "--task", "tests.toy_envs:make_point", "--episodes", "2", "--checkpoint", "last")
    assert "tests.toy_envs:make_point: return" in done.stdout
    table = tmp_path / "new" / "episodes.csv"
    cli("eval", str(run), "--task", "tests.toy_envs:make_point", "--episodes", "3", "--out", str(table))
    expected = flashsac.evaluate(run, toy_envs.make_point, episodes=3)
    task = "tests.toy_envs:make_point"
    rows = [f"{task},{i},{expected.returns[i]:.6g},20,{expected.successes[i]:.0f}" for i in range(3)]
    assert table.read_text().splitlines() == ["task,episode,return,length,success", *rows]
    assert str(policy_file(run, "last")) in done.stdout
    done = cli("eval", str(run), "--task", "gym:Pendulum-v1", check=False)
    assert "the environment now shows 3 numbers" in done.stderr


def test_checkpoints_by_any_name(run):
    folder = run / "checkpoints"
    last, earlier = folder / "step-000000000600", folder / "step-000000000400"
    assert policy_file(run) == policy_file(folder) == policy_file(run, "best") == folder / "best.safetensors"
    assert policy_file(run, "last") == policy_file(last) == last / "policy.safetensors"
    assert policy_file(run, "400") == policy_file(run, 400) == policy_file(folder, earlier.name) == policy_file(earlier)
    with pytest.raises(CheckpointError, match="no checkpoint '7' in .*; there are best, last, 600, 400"):
        policy_file(run, 7)
    with pytest.raises(CheckpointError, match="one policy already"):
        policy_file(folder / "best.safetensors", "last")
    for path in (folder, last):
        assert len(flashsac.evaluate(path, toy_envs.make_point, episodes=1).returns) == 1


@pytest.mark.parametrize("task", ["trap:make_env", "gym:trap:Trap-v0", "custom:make_point"])
def test_a_policy_file_does_not_choose_what_is_imported(run, tmp_path, monkeypatch, task):
    (tmp_path / "trap.py").write_text("open('sprung', 'w').close()\n")
    policy = flashsac.load_policy(run)
    policy.meta["task"] = policy.task = task
    policy.save(tmp_path / "gift.safetensors")
    monkeypatch.chdir(tmp_path)
    for command in ("eval", "play"):
        done = cli(command, "gift.safetensors", cwd=tmp_path, check=False)
        assert "--task module:function" in done.stderr
        assert "Traceback" not in done.stderr
    assert "made-up observations" in cli("export", "gift.safetensors", "--observations", "64", cwd=tmp_path).stdout
    with pytest.raises(CheckpointError, match="does not decide which code is run"):
        flashsac.evaluate(flashsac.load_policy("gift.safetensors"))
    assert not (tmp_path / "sprung").exists()


def test_a_policy_says_what_it_is_and_refuses_nan(run):
    policy = flashsac.load_policy(run)
    assert repr(policy) == "<flashsac.Policy for custom:make_point: takes 2 numbers (actor), gives 2 actions>"
    with pytest.raises(ValueError, match="holds NaN or Inf"):
        policy(np.array([0.0, np.nan]))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda meta: meta.pop("obs_dim"), "does not understand .KeyError: 'obs_dim'"),
        (lambda meta: meta["agent"].update(depth=3, version=1), "not know: depth, version. Version .* wrote it"),
        (lambda meta: meta.update(action_low=None), "does not understand .TypeError"),
        (lambda meta: meta["agent"].update(actor_width=60_000), "not hold the weights"),  # 230 GB, if it were built
        (lambda meta: meta["agent"].update(blocks=10**9), "agent.blocks must be at most 1000"),
        (lambda meta: meta["agent"].update(blocks="2"), "agent.blocks must be a whole number"),
        (lambda meta: meta["agent"].update(learning_rate=float("nan")), "agent.learning-rate must be above 0"),
        (lambda meta: meta.update(history=10**9), "does not understand .ValueError: history"),
        (lambda meta: meta.update(action_high=[1.0] * 5), "lowest and 5 highest actions"),
    ],
)
def test_headers_that_do_not_fit_are_refused(run, tmp_path, change, problem):
    policy = flashsac.load_policy(run)
    change(policy.meta)
    policy.save(tmp_path / "changed.safetensors")
    with pytest.raises(CheckpointError, match=problem):
        flashsac.load_policy(tmp_path / "changed.safetensors")


def test_a_policy_may_be_saved_over_the_file_it_came_from(run, tmp_path):
    file = tmp_path / "policy.safetensors"
    flashsac.load_policy(run).save(file)
    policy, obs = flashsac.load_policy(file), np.ones(2)
    before = policy(obs)
    file.write_bytes(b"")
    assert np.array_equal(policy(obs), before)
    policy.save(file)
    assert np.array_equal(flashsac.load_policy(file)(obs), before)


def test_other_action_bounds_are_refused(run):
    with pytest.raises(
        CheckpointError, match=r"highest actions are \[1.0, 1.0\], but the environment now has \[2.0, 2.0\]"
    ):
        flashsac.evaluate(run, lambda: toy_envs.PointEnv(high=2.0), episodes=1)
    rounded = flashsac.evaluate(run, lambda: toy_envs.PointEnv(high=1.0000002), episodes=1)
    assert len(rounded.returns) == 1


def test_every_episode_is_there_where_the_environment_decides_how_many_run_at_once(run):
    from flashsac.config.schema import EnvConfig
    from flashsac.sims.make import make_env

    three = lambda: make_env(toy_envs.make_point, EnvConfig(num_envs=3))
    assert flashsac.evaluate(run, three, episodes=10).returns.shape == (10,)


def test_other_settings_of_the_simulator_than_those_of_the_training(tmp_path):
    env = dict(num_envs=2, max_episode_steps=20, options=("pose_scale=1000",))
    run = tiny_run(tmp_path / "run", task="playground:Go1JoystickFlatTerrain", steps=120, env=env, eval=dict(every=0))
    as_trained = flashsac.evaluate(run, episodes=2).returns
    double = flashsac.evaluate(run, episodes=2, options=["pose_scale=2000"]).returns
    assert (as_trained > 10).all()  # of nearly nothing but the pose
    assert np.allclose(double, 2 * as_trained, rtol=0.05)
    as_it_stands = flashsac.evaluate(run, episodes=2, options=()).returns
    assert (as_it_stands < 1).all()
    name = "playground:Go1JoystickFlatTerrain"
    for flags, settings, returns in (
        ((), " with pose_scale=1000", as_trained),
        (("--task", name), " with pose_scale=1000", as_trained),
        (("--env.options",), "", as_it_stands),
        (("--env.options", "pose_scale=2000"), " with pose_scale=2000", double),
    ):
        told = cli("eval", str(run), "--episodes", "2", *flags).stdout
        number = f"{returns.mean():.{1 if returns.max() >= 100 else 2}f}"
        assert f"{name}{settings}: return {number} ±" in told
    elsewhere = locate_policy(run, "playground:Go1JoystickRoughTerrain")
    assert elsewhere.env.options == (), "the training's settings are for the training's task"
    assert str(elsewhere) == "playground:Go1JoystickRoughTerrain"
    assert locate_policy(run, engine="jax").env.engine == "jax"
    with pytest.raises(FlashSACError, match="has no such setting"):
        flashsac.evaluate(run, episodes=2, options=["no_such=1"])
