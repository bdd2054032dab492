"""Environments that quit, break or lie: what was learned is kept, what is false is not believed, and the user is told."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

import flashsac
from flashsac.cli.main import main
from flashsac.errors import BadSimulation, EvaluationLost
from flashsac.policies.evaluation import Evaluator
from flashsac.runs.metrics import read_metrics
from tests import toy_envs
from tests.helpers import TINY, checkpoint_steps, cli, lose_newest_checkpoint, tiny_run

pytestmark = pytest.mark.slow

SETTINGS = TINY | dict(env=dict(num_envs=1), checkpoint_every=0, eval=dict(every=0), quiet=True)


class Gone(BaseException):
    """No Exception, as SystemExit and KeyboardInterrupt are none."""


def quits_soon():
    return toy_envs.Quits(after=5)


def always_nan():
    return toy_envs.PointEnv(nan_rate=1.0)


def notes(error) -> str:
    return "\n".join(getattr(error.value, "__notes__", ()))


# --- environments that quit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["step", "reset"])
@pytest.mark.parametrize(
    ("how", "raised"),
    [(SystemExit(0), BadSimulation), (KeyboardInterrupt(), KeyboardInterrupt), (Gone(), Gone)],
    ids=["sys.exit", "KeyboardInterrupt", "BaseException"],
)
def test_whatever_an_environment_raises_leaves_a_checkpoint_and_says_so(tmp_path, how, raised, where):
    with pytest.raises(raised) as error:
        flashsac.train(lambda: toy_envs.Quits(how, where=where), run_dir=str(tmp_path), **SETTINGS)
    (step,) = checkpoint_steps(tmp_path)
    assert 300 <= step < 320
    assert f"A checkpoint of step {step:,} was saved: {tmp_path / 'checkpoints'}" in notes(error)
    assert f"flashsac.resume({str(tmp_path)!r}, env)" in notes(error)
    assert flashsac.resume(tmp_path, toy_envs.make_point, quiet=True).step == 600


def test_the_message_names_sys_exit(tmp_path):
    with pytest.raises(BadSimulation, match=r"called sys\.exit\(0\) during training"):
        flashsac.train(toy_envs.Quits, run_dir=str(tmp_path), **SETTINGS)


@pytest.mark.parametrize("task", ["Quits", "Breaks"])
def test_the_command_line_says_where_the_checkpoint_is_and_how_to_go_on(tmp_path, task):
    run, agent = (
        tmp_path / "run",
        [f"--agent.{name.replace('_', '-')}={value}" for name, value in TINY["agent"].items()],
    )
    done = cli(
        *("train", f"tests.toy_envs:{task}", "--preset", "laptop", "--steps", "600", "--no-video", "--compile", "off"),
        *("--precision", "fp32", "--eval.every", "0", "--env.num-envs", "1", "--run-dir", str(run), *agent),
        check=False,
    )
    assert done.returncode == 1
    assert checkpoint_steps(run)[0] == 300
    assert f"A checkpoint of step 300 was saved: {run / 'checkpoints'}" in done.stderr
    assert f"flashsac resume {run}" in done.stderr
    assert ("Traceback" in done.stderr) == (task == "Breaks"), "of the user's own bug alone"


def test_an_environment_that_quits_when_it_begins_is_an_error(tmp_path):
    with pytest.raises(BadSimulation, match=r"sys\.exit\(0\) during its start"):
        flashsac.train(lambda: toy_envs.Quits(after=-1, where="reset"), run_dir=str(tmp_path / "run"), **SETTINGS)


def test_an_evaluation_environment_that_quits_leaves_a_checkpoint(tmp_path):
    made = []

    def make():
        made.append(toy_envs.Quits(after=10**9 if not made else 5))
        return made[-1]

    with pytest.raises(BadSimulation, match=r"sys\.exit\(0\) during evaluation") as error:
        flashsac.train(make, run_dir=str(tmp_path), **SETTINGS | dict(eval=dict(every=200, episodes=1)))
    assert checkpoint_steps(tmp_path) == [200]
    assert "A checkpoint of step 200 was saved" in notes(error)
    flashsac.resume(tmp_path, toy_envs.make_point, quiet=True)
    evaluated = [row["step"] for row in read_metrics(tmp_path / "metrics.csv") if "eval_return" in row]
    assert evaluated == [200, 400, 600], "the resumed run makes up for it"


def test_eval_of_an_environment_that_quits_is_an_error(tmp_path, capsys):
    run = tiny_run(tmp_path / "run", steps=200)
    assert main(["eval", str(run), "--task", "tests.training.test_failures:quits_soon"]) == 1
    assert "sys.exit(0) during evaluation" in capsys.readouterr().err


def test_training_goes_on_without_a_lost_evaluation_and_tries_again(tmp_path, monkeypatch, capfd):
    evaluate, lost = Evaluator.evaluate, [EvaluationLost("its simulator hangs")]

    def once_lost(self, *arguments):
        if lost:
            raise lost.pop()
        return evaluate(self, *arguments)

    monkeypatch.setattr(Evaluator, "evaluate", once_lost)
    flashsac.train(toy_envs.make_point, run_dir=str(tmp_path), **TINY)
    assert "warning: its simulator hangs\nTraining goes on" in capfd.readouterr().out
    evaluated = [row["step"] for row in read_metrics(tmp_path / "metrics.csv") if "eval_return" in row]
    assert evaluated == [400, 600]


# --- policies that break the simulator ---------------------------------------------------------------------------------


class BreaksLater(toy_envs.PointEnv):
    """Whole for its first episodes; after that every episode ends in NaN with its first step, and so with a return of 0."""

    def __init__(self, whole: float):
        super().__init__()
        self.episodes, self.whole = 0, whole

    def reset(self, **kwargs):
        self.episodes += 1
        return super().reset(**kwargs)

    def step(self, action):
        obs, reward, *rest = super().step(action)
        return (obs, reward, *rest) if self.episodes <= self.whole else (np.full_like(obs, np.nan), reward, *rest)


def train_with_breaking_evaluation(path, whole):
    """The two training environments are whole; the two of the evaluation only for so many episodes."""
    made = []

    def make():
        made.append(BreaksLater(math.inf if len(made) < 2 else whole))
        return made[-1]

    flashsac.train(make, run_dir=str(path), **TINY)
    rows = [row for row in read_metrics(path / "metrics.csv") if "eval_void" in row]
    return {row["step"]: (row["eval_void"], row.get("eval_return")) for row in rows}


def test_a_policy_that_breaks_the_simulator_is_never_the_best(tmp_path, capfd):
    # The first evaluation runs an episode in each environment, and begins the next.
    found = train_with_breaking_evaluation(tmp_path, whole=1)
    assert found[200][0] == 0
    assert found[200][1] < -1
    assert found[400] == found[600] == (2, None)
    assert json.loads((tmp_path / "checkpoints" / "best.json").read_text())["step"] == 200
    assert "warning: 2 of 2 evaluation episodes broke the simulator" in capfd.readouterr().out


def test_without_one_whole_episode_there_is_no_best_policy_and_training_ends(tmp_path):
    found = train_with_breaking_evaluation(tmp_path, whole=0)
    assert set(found.values()) == {(2, None)}
    assert not (tmp_path / "checkpoints" / "best.safetensors").exists()
    assert checkpoint_steps(tmp_path)[0] == 600


def test_eval_fails_when_all_episodes_are_void(tmp_path, capsys):
    run = tiny_run(tmp_path / "run", steps=200)
    assert main(["eval", str(run), "--task", "tests.training.test_failures:always_nan"]) == 1
    assert "10 of 10 evaluation episodes broke the simulator" in capsys.readouterr().err


def test_eval_tells_of_some_void_episodes(tmp_path, capsys):
    run = tiny_run(tmp_path / "run", steps=200)
    assert main(["eval", str(run), "--task", "tests.toy_envs:make_rarely_nan", "--episodes", "60"]) == 0
    assert "of 60 evaluation episodes broke the simulator" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["eval", "play", "export"])
def test_a_policy_with_nan_weights_is_refused(tmp_path, capsys, command):
    run = tiny_run(tmp_path / "run", steps=200)
    policy = flashsac.load_policy(run)
    next(policy.actor.parameters()).data.fill_(float("nan"))
    policy.save(tmp_path / "nan.safetensors")
    assert main([command, str(tmp_path / "nan.safetensors"), "--task", "tests.toy_envs:make_point"]) == 1
    assert "holds NaN or Inf in its weights" in capsys.readouterr().err


# --- rewards out of the ordinary ---------------------------------------------------------------------------------------


def last_row(path, **rewards):
    return flashsac.train(lambda: toy_envs.Outliers(**rewards), run_dir=str(path), **SETTINGS | dict(quiet=False)).row


def test_one_reward_of_a_million_is_held_back_counted_and_said(tmp_path, capfd):
    honest = last_row(tmp_path / "honest")
    assert "exceeded" not in capfd.readouterr().out
    attacked = last_row(tmp_path / "attacked", s310=1e6)
    assert capfd.readouterr().out.count("warning: a reward exceeded 100 times the largest return so far") == 1
    assert honest["reward_outliers"] == 0
    assert attacked["reward_outliers"] == 1
    assert attacked["reward_scale"] == pytest.approx(honest["reward_scale"], rel=0.5)
    assert attacked["invalid"] == 0


def test_the_guard_can_be_turned_off(tmp_path):
    settings = SETTINGS | dict(agent=TINY["agent"] | dict(reward_guard=False))
    row = flashsac.train(lambda: toy_envs.Outliers(s310=1e6), run_dir=str(tmp_path), **settings).row
    assert row["reward_scale"] > 1e5
    assert row["reward_outliers"] == 0


@pytest.mark.parametrize("reward", [1e38, -1e38, 1e16])
def test_rewards_beyond_what_float32_can_square_are_invalid(tmp_path, reward):
    row = last_row(tmp_path, s310=reward)
    assert row["invalid"] == 1
    assert row["reward_scale"] < 100
    assert math.isfinite(row["return"])


def test_a_run_goes_on_with_a_jump_it_has_not_decided_on(tmp_path):
    """Bit for bit, in a simulator that can be saved."""
    make = lambda: toy_envs.Outliers(s150=1e6)
    whole = flashsac.train(make, run_dir=str(tmp_path / "whole"), **SETTINGS)
    assert whole.row["reward_outliers"] == 1
    parts = flashsac.train(
        make, run_dir=str(tmp_path / "parts"), **SETTINGS | dict(checkpoint_every=200, keep_checkpoints=5)
    )
    lose_newest_checkpoint(parts.run_dir)
    resumed = flashsac.resume(parts.run_dir, toy_envs.make_point, quiet=True)
    for name in ("reward_scale", "reward_outliers", "q", "critic_loss"):
        assert resumed.row[name] == whole.row[name], name
    weights = [flashsac.load_policy(result.run_dir, "last").weights() for result in (whole, resumed)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
