"""Other algorithms on our environments: nothing is lost on the bridges, and the comparison is a fair one."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

if not all(importlib.util.find_spec(name) for name in ("rsl_rl", "stable_baselines3", "sbx")):
    pytest.skip('needs pip install "flashsac[baselines]"', allow_module_level=True)

from flashsac.cli.main import main
from flashsac.config.schema import EnvConfig
from flashsac.errors import BadSimulation, CheckpointError, FlashSACError, MissingExtra, OtherAlgorithm
from flashsac.experiments.baselines import checkpoint
from flashsac.experiments.baselines.algorithms import ALGORITHMS, find_algorithm, hyperparameters, learner_class
from flashsac.experiments.baselines.source import Source
from flashsac.policies.evaluation import Evaluator
from flashsac.policies.evaluation_process import EVAL_SEED
from flashsac.runs.directory import read_config, read_recorded_settings
from flashsac.runs.metrics import read_metrics
from flashsac.runs.tree import flatten
from flashsac.sims.make import make_env
from flashsac.types import Step
from tests import toy_envs
from tests.helpers import PATIENCE, checkpoint_steps, cli, command, environment, tiny_run, wait_until

POINT = "tests.toy_envs:make_point"
NETWORK = 'policy_kwargs={"net_arch": [16, 16]}'
SMALL = {name: ["learning_starts=20", "batch_size=16", "buffer_size=10000", NETWORK] for name in ALGORITHMS}
SMALL["ppo"] = ["num_steps_per_env=10", "hidden_dims=[16, 16]"]


class Count(gymnasium.Env):
    """Counts its steps: the observation is their number, the reward ten times that, plus the action. It ends after
    three."""

    def __init__(self, terminates: bool = False):
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.terminates = terminates

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.count += 1
        over = self.count == 3
        obs, reward = np.full(1, self.count, np.float32), 10.0 * self.count + float(action[0])
        return obs, reward, over and self.terminates, over and not self.terminates, {}


def make_source(task, num_envs=1, max_invalid=1.0):
    source = Source(make_env(task, EnvConfig(num_envs=num_envs)), "test", max_invalid, lambda line: None)
    source.reset(0)
    return source


def make_learner(name, source, *changes, seed=0):
    algorithm = find_algorithm(name)
    given = hyperparameters(algorithm, [*SMALL[name], *changes])
    return learner_class(algorithm)(source, algorithm.kind, given, seed)


def baseline(name, run, *more, task=POINT):
    """The arguments of the command."""
    settings = ["--set", *SMALL[name], "--env.num-envs", "2", "--eval.episodes", "2", "--no-video"]
    return ["baseline", name, task, "--run-dir", str(run), *settings, *more]


# --- the bridges ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("terminates", [True, False])
def test_stable_baselines_sees_the_final_observation_and_who_ended_the_episode(terminates):
    from flashsac.experiments.baselines.stable_baselines import Environments

    env = Environments(make_source(lambda: Count(terminates)))
    assert env.reset().tolist() == [[0.0]]
    seen = [env.step(np.array([[action]], np.float32)) for action in (0.5, -0.5, 2.0, 0.0)]
    assert [obs.tolist() for obs, *_ in seen] == [[[1.0]], [[2.0]], [[0.0]], [[1.0]]]
    assert [reward.tolist() for _, reward, *_ in seen] == [[10.5], [19.5], [31.0], [10.0]], "2.0 is clamped to 1.0"
    assert [done.tolist() for *_, done, _ in seen] == [[False], [False], [True], [False]]
    infos = [info for *_, (info,) in seen]
    assert infos[2]["terminal_observation"].tolist() == [3.0]
    assert infos[2]["TimeLimit.truncated"] is not terminates
    assert not any("terminal_observation" in info for info in (infos[0], infos[1], infos[3]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sac", "crossq"])
def test_its_replay_holds_what_each_step_led_to(name):
    source = make_source(Count, num_envs=2)
    learner = make_learner(name, source, "learning_starts=100")
    for _ in range(4):
        learner.advance()
    replay = learner.state_dict()["memory"]["replay"]
    both = lambda numbers: [[number, number] for number in numbers]
    assert replay["observations"][..., 0].tolist() == both([0, 1, 2, 0])
    assert replay["next_observations"][..., 0].tolist() == both([1, 2, 3, 1])
    assert replay["dones"].tolist() == both([0, 0, 1, 0])
    assert replay["timeouts"].tolist() == both([0, 0, 1, 0])
    np.testing.assert_allclose(replay["rewards"] - replay["actions"][..., 0], both([10, 20, 30, 10]), atol=1e-5)
    assert source.step_count == 8
    assert source.episodes.summary()["length"] == 3


def broken(source, *valid):
    """Make the next steps of these environments invalid where `valid` is 0: NaN, after which they were reset."""
    step, left = source.env.step, list(valid)

    def stepping(action):
        out = step(action)
        good = torch.tensor(left.pop(0) if left else [1] * source.spec.num_envs, dtype=torch.bool)
        final = torch.where(good[:, None], out.final_obs["actor"], torch.nan)
        reward = torch.where(good, out.reward, torch.nan)
        return Step(out.obs, reward, out.terminated, out.truncated, {"actor": final}, good, out.info)

    source.env.step = stepping


@pytest.mark.slow
def test_a_replay_has_no_transition_without_an_outcome():
    source = make_source(Count, num_envs=2)
    learner = make_learner("sac", source, "learning_starts=100")
    broken(source, [1, 1], [0, 1], [0, 0], [1, 1])
    for _ in range(4):
        learner.advance()
    replay = learner.state_dict()["memory"]["replay"]
    assert replay["next_observations"][..., 0].tolist() == [[1, 1], [2, 2], [1, 1]], "the third step is left out"
    action = replay["actions"][1, :, 0]
    assert action[0] == action[1], "the other environment's transition stands in"
    assert np.isfinite(replay["rewards"]).all()
    assert source.invalid == 3


@pytest.mark.slow
def test_ppo_gives_no_worth_to_an_invalid_step_and_ends_the_episode():
    from flashsac.experiments.baselines.rsl_rl import Environments

    source = make_source(POINT, num_envs=4)
    obs, flags = source.obs, torch.tensor
    reward = flags([1.0, 2.0, float("nan"), 4.0])
    terminated, truncated = flags([False, True, False, False]), flags([False, False, False, True])
    valid = flags([True, True, False, True])
    source.env.step = lambda actions: Step(obs, reward, terminated, truncated, obs, valid, {})
    _, rewards, ended, extras = Environments(source).step(torch.zeros(4, 2))
    assert rewards.tolist() == [1.0, 2.0, 0.0, 4.0]
    assert ended.tolist() == [False, True, True, True]
    assert extras["time_outs"].tolist() == [False, False, True, True]
    assert source.episodes.summary()["return"] == pytest.approx((2 + 0 + 4) / 3)


@pytest.mark.slow
def test_a_simulator_that_often_fails_ends_the_run_and_one_that_rarely_fails_does_not():
    source = make_source(toy_envs.make_rarely_nan, num_envs=4, max_invalid=0.01)
    learner = make_learner("ppo", source)
    for _ in range(30):
        learner.advance()
    assert source.step_count == 30 * 10 * 4
    assert torch.isfinite(learner.act(source.obs)).all()
    source = make_source(toy_envs.make_nan, num_envs=4, max_invalid=0.01)
    learner = make_learner("ppo", source)
    with pytest.raises(BadSimulation, match="unstable"):
        deque((learner.advance() for _ in range(30)), maxlen=0)


# --- a run ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_checkpoint_holds_everything_that_was_learned(name, tmp_path):
    source = make_source(POINT, num_envs=2)
    learner = make_learner(name, source)
    for _ in range(30):
        learner.advance()
    checkpoint.save(tmp_path, POINT, {"id": "a"}, 60, learner.state_dict())
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".json", ".safetensors"}
    step, state = checkpoint.load(tmp_path, POINT, {"id": "a"})
    assert step == 60
    other = make_learner(name, make_source(POINT, num_envs=2), seed=1)
    assert not torch.equal(other.act(source.obs), learner.act(source.obs))
    other.load_state_dict(state)
    assert torch.equal(other.act(source.obs), learner.act(source.obs))
    assert other.updates == learner.updates > 0
    before, after = {}, {}
    assert flatten(other.state_dict(), before) == flatten(learner.state_dict(), after)
    assert all(torch.equal(before[key], after[key]) for key in after)
    other.advance()
    assert other.updates > learner.updates
    alone = make_learner(name, make_source(POINT), seed=2)
    alone.load_state_dict(state, networks_only=True)
    one = {"actor": source.obs["actor"][:1]}
    torch.testing.assert_close(alone.act(one), learner.act(one))


def test_a_checkpoint_that_was_changed_is_refused(tmp_path):
    checkpoint.save(tmp_path, POINT, {"id": "a"}, 60, {"x": torch.zeros(3)})
    checkpoint.save(tmp_path, POINT, {"id": "a"}, 60, {"x": torch.ones(3)})
    assert checkpoint.load(tmp_path, POINT, {"id": "a"})[1]["x"].tolist() == [1, 1, 1], "the newer of one step"
    checkpoint.save(tmp_path, POINT, {"id": "a"}, 70, {"x": torch.ones(3)})
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000000000070"]
    with pytest.raises(CheckpointError, match="another run"):
        checkpoint.load(tmp_path, POINT, {"id": "b"})
    (file,) = tmp_path.rglob("state.safetensors")
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    with pytest.raises(CheckpointError, match=r"checksum.*Begin the baseline again"):
        checkpoint.load(tmp_path, POINT, {"id": "a"})


@pytest.mark.slow
def test_evaluation_is_no_training_time_and_comes_once_more_at_the_end(tmp_path, monkeypatch):
    seeds, evaluate = [], Evaluator.evaluate

    def slowly(evaluator, policy):
        seeds.append(evaluator.seed)
        time.sleep(0.5)
        return evaluate(evaluator, policy)

    monkeypatch.setattr(Evaluator, "evaluate", slowly)
    began, run = time.monotonic(), tmp_path / "run"
    assert main(baseline("ppo", run, "--minutes", "0.02", "--seed", "3")) == 0
    took, rows = time.monotonic() - began, read_metrics(run / "metrics.csv")
    evaluated = [row for row in rows if "eval_return" in row]
    assert len(evaluated) >= 2
    assert "eval_return" in rows[-1]
    assert set(seeds) == {3 + EVAL_SEED}, "the episodes that FlashSAC is judged by"
    assert took > rows[-1]["seconds"] + 0.5 * len(evaluated)
    assert rows[-1]["seconds"] >= 0.02 * 60
    assert rows[-1]["step"] % (2 * 10) == 0
    settings = read_recorded_settings(run)
    assert settings["minutes"] == 0.02
    assert settings["algorithm"] == "ppo"
    assert settings["library"].startswith("rsl-rl-lib 5")
    assert settings["hyperparameters"]["num_steps_per_env"] == 10
    assert not {"steps", "agent", "replay", "precision", "compile"} & settings.keys()
    shorter = tmp_path / "as-long"
    assert main(baseline("ppo", shorter, "--as-long-as", str(run), "--eval.every", "0")) == 0
    assert read_metrics(shorter / "metrics.csv")[-1]["seconds"] >= rows[-1]["seconds"]
    assert "eval_return" not in read_metrics(shorter / "metrics.csv")[-1]


@pytest.mark.slow
def test_a_report_draws_baselines_beside_flashsac(tmp_path, capsys):
    runs = tmp_path / "runs"
    tiny_run(runs / "ours", POINT, steps=300, eval=dict(every=100, episodes=2))
    for name in ("ppo", "sac", "tqc"):
        assert main(baseline(name, runs / name, "--steps", "120", "--eval.every", "40")) == 0
    assert main(baseline("sac", runs / "sac-2", "--steps", "120", "--eval.every", "40", "--seed", "1")) == 0
    assert [row["step"] for row in read_metrics(runs / "sac" / "metrics.csv") if "eval_return" in row] == [40, 80, 120]
    assert read_metrics(runs / "sac" / "metrics.csv")[-1]["updates"] == 120 / 2 - 20 / 2
    capsys.readouterr()
    assert main(["report", str(runs), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "differ in" not in said, "who learns is all that differs, and the legend says it"
    (table,) = (tmp_path / "out").glob("*.csv")
    with table.open() as file:
        names = {row["name"]: row["seeds"] for row in csv.DictReader(file) if row["kind"] == "mean"}
    assert names == {
        "flashsac": "1",
        "ppo (rsl-rl-lib)": "1",
        "sac (stable-baselines3)": "2",
        "tqc (sbx-rl)": "1",
    }
    assert main(baseline("sac", runs / "sac-3", "--steps", "80", "--set", *SMALL["sac"], "gamma=0.9")) == 0
    capsys.readouterr()
    assert main(["report", f"all={runs}", "--out", str(tmp_path / "out")]) == 0
    assert "share one curve" in capsys.readouterr().out
    assert main(["report", str(runs), "--out", str(tmp_path / "out")]) == 0
    with table.open() as file:
        names = {row["name"] for row in csv.DictReader(file)}
    assert {name for name in names if "gamma 0.9" in name and name.startswith("sac (stable-baselines3) ")}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "td3", "crossq"])
def test_a_killed_run_goes_on_where_its_last_checkpoint_was(name, tmp_path):
    run = tmp_path / "run"
    arguments = baseline(name, run, "--steps", "800", "--eval.every", "80")
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(command(*arguments), env=environment(), stdout=out, stderr=out)
        try:
            assert wait_until(lambda: bool(checkpoint_steps(run)) or process.poll() is not None)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    (saved,) = checkpoint_steps(run)
    assert saved < 800
    said = cli("resume", str(run), "--task", POINT).stdout
    assert f"resuming at step {saved:,}" in said
    rows = read_metrics(run / "metrics.csv")
    steps = [row["step"] for row in rows]
    assert steps == sorted(set(steps))
    assert steps[-1] >= 800
    assert [row["seconds"] for row in rows] == sorted(row["seconds"] for row in rows)
    each = np.diff([row["updates"] for row in rows]) / np.diff(steps)
    assert each[-1] == pytest.approx(20 / 20 if name == "ppo" else 1 / 2), "as many updates a step as before"
    assert "is finished" in cli("resume", str(run), "--task", POINT).stdout


@pytest.mark.slow
def test_a_run_says_what_came_out_and_what_comes_next(tmp_path, capsys):
    one, two = tmp_path / "one", tmp_path / "two"
    assert main(baseline("sac", one, "--steps", "40")) == 0
    said = capsys.readouterr().out
    row = read_metrics(one / "metrics.csv")[-1]
    assert f"evaluated return {row['eval_return']:.1f} ± {row['eval_return_std']:.1f} over 2 episodes" in said
    assert said.endswith(f"  {one}/metrics.csv  (the numbers)\nnext:\n  flashsac report {one} --out {one}/curves\n")
    assert main(baseline("sac", two, "--minutes", "0.005")) == 0
    said = capsys.readouterr().out
    assert "/about " in said
    assert said.endswith(f"--out {two}/curves\n  flashsac report {tmp_path} --out {tmp_path}/curves\n")


@pytest.mark.slow
def test_sigterm_ends_a_run_in_order(tmp_path):
    run = tmp_path / "run"
    arguments = baseline("sac", run, "--steps", "1000000", "--eval.every", "0")
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(command(*arguments), env=environment(), stdout=out, stderr=out)
        assert wait_until(lambda: (run / "metrics.csv").exists() or process.poll() is not None)
        time.sleep(1.0)
        process.terminate()
        assert process.wait(PATIENCE) == 130
    assert len(checkpoint_steps(run)) == 1
    assert f"flashsac resume {run} --task {POINT}\n" in (tmp_path / "out").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "sac", "crossq"])
def test_a_run_says_where_it_computes(name, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(baseline(name, run, "--steps", "40", "--eval.every", "0", "--device", "cpu")) == 0
    said = capsys.readouterr().out
    assert f"trained by {name} ({find_algorithm(name).packages[0]}) on cpu" in said
    assert "next:" not in said, "there is no evaluation to draw"
    assert read_recorded_settings(run)["device"] == "cpu"
    assert main(["resume", str(run), "--task", POINT, "--device", "tpu"]) == 1
    said = capsys.readouterr().err
    assert ("computes in JAX" if name == "crossq" else "there is no such device") in said
    assert main(["resume", str(run), "--task", POINT, "--device", "auto"]) == 0


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", ["ppo", "sac", "td3"])
def test_a_run_on_a_gpu_goes_on_on_the_cpu(name, tmp_path):
    run = tmp_path / "run"
    assert main(baseline(name, run, "--steps", "400", "--eval.every", "80", "--device", "cuda")) == 0
    assert read_recorded_settings(run)["device"] == "cuda"
    _, state = checkpoint.load(run, POINT, json.loads((run / "config.json").read_text()))
    for device in ("cuda", "cpu"):
        algorithm, source = find_algorithm(name), make_source(POINT, num_envs=2)
        learner = learner_class(algorithm)(source, algorithm.kind, hyperparameters(algorithm, SMALL[name]), 0, device)
        learner.load_state_dict(state["learner"])
        learner.advance()
        assert learner.act(source.obs).device == source.obs["actor"].device


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "more", "bar"),
    [
        ("ppo", ["num_steps_per_env=20", "hidden_dims=[32, 32]", "gamma=0.9"], -6.0),
        ("sac", ["gamma=0.9", "batch_size=64", "learning_rate=0.001", "learning_starts=200"], -6.0),
    ],
)
def test_it_learns_to_move_a_point_to_the_origin(name, more, bar, tmp_path):
    """The best return is about -2; standing still gives -15, on average."""
    steps, envs = ("60k", "32") if name == "ppo" else ("4000", "2")
    settings = ["--set", *SMALL[name], *more, "--env.num-envs", envs, "--eval.episodes", "10", "--no-video"]
    run = tmp_path / "run"
    assert main(["baseline", name, POINT, "--run-dir", str(run), "--steps", steps, *settings, "--eval.every", "0"]) == 0
    _, state = checkpoint.load(run, POINT, json.loads((run / "config.json").read_text()))
    learner = make_learner(name, make_source(POINT), *more)
    learner.load_state_dict(state["learner"], networks_only=True)
    evaluator = Evaluator(POINT, EnvConfig(num_envs=1), 20, 7)
    assert evaluator.evaluate(learner).returns.mean() > bar


@pytest.mark.slow
def test_a_video_shows_the_trained_policy(tmp_path):
    run = tmp_path / "run"
    arguments = baseline("td3", run, "--steps", "60", "--eval.every", "0", task="gym:Pendulum-v1")
    arguments.remove("--no-video")
    said = cli(*arguments, MUJOCO_GL=os.environ["MUJOCO_GL"])
    film = run / "videos" / "final.mp4"
    assert film.exists(), said.stdout + said.stderr
    assert film.stat().st_size > 1000
    film.unlink()  # as if the run had been killed while it was drawn
    said = cli("resume", str(run), MUJOCO_GL=os.environ["MUJOCO_GL"])
    assert "is finished" in said.stdout
    assert film.exists(), said.stdout + said.stderr
    assert "drawing" not in cli("resume", str(run)).stdout, "it is there"


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_other_commands_say_that_a_run_is_a_baselines(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(baseline("ppo", run, "--steps", "40", "--eval.every", "0")) == 0
    with pytest.raises(OtherAlgorithm, match="baseline ppo"):
        read_config(run)
    for arguments in (["eval", str(run)], ["play", str(run), "--out", "x.mp4"], ["export", str(run)]):
        assert main([*arguments, "--task", POINT]) == 1
        assert "baseline ppo" in capsys.readouterr().err
    assert main(["train", POINT, "--from", str(run)]) == 1
    assert "baseline ppo" in capsys.readouterr().err
    assert main(["resume", str(run), "--steps", "100"]) == 1
    assert "leave --steps, --run-dir and --ranks out" in capsys.readouterr().err
    assert main(["resume", str(run)]) == 1, "its task names a module, whose code would run"
    assert "--trust-run" in capsys.readouterr().err
    assert main(["resume", str(run), "--task", "gym:Pendulum-v1"]) == 1
    assert "the task of a run is fixed" in capsys.readouterr().err


@pytest.mark.slow
def test_wrong_hyperparameters_are_named():
    sac = find_algorithm("sac")
    assert hyperparameters(sac, ["buffer_size=1e5", "ent_coef=0.2", "gamma=1"])["buffer_size"] == 100_000
    for change, said in (
        ("gama=0.9", "Did you mean gamma"),
        ("gamma", "give it a value"),
        ("gamma=high", "like its default, 0.99"),
        ("gamma=NaN", "finite"),
        ("batch_size=1.5", "like its default, 256"),
        ("n_steps=3", "no hyperparameter 'n_steps'"),
        ("seed=3", "no hyperparameter 'seed'"),
    ):
        with pytest.raises(FlashSACError, match=said):
            hyperparameters(sac, [change])
    with pytest.raises(FlashSACError, match="Did you mean crossq"):
        find_algorithm("crossk")


@pytest.mark.slow
def test_bad_input_gets_an_answer(tmp_path, capsys):
    run = str(tmp_path / "run")
    for arguments, said in (
        (["sac"], "which algorithm, and which task"),
        (["sax", POINT], "there is no baseline 'sax'"),
        (["sac", POINT, "--steps", "9", "--minutes", "1"], "give one of them"),
        (["sac", POINT, "--as-long-as", str(tmp_path)], "no rows in metrics.csv"),
        (["sac", POINT, "--set", "ent_coef=nonsense", "--run-dir", run], "refuses these hyperparameters"),
        (["crossq", POINT, "--device", "cuda", "--run-dir", run], "crossq computes in JAX"),
        (["ppo", POINT, "--device", "tpu", "--run-dir", run], "there is no such device"),
        (["ppo", POINT, "--threads", "0"], "--threads must be at least 1"),
        (["ppo", "tests.toy_envs:make_pixel_point", "--run-dir", run], "one vector of numbers"),
    ):
        assert main(["baseline", *arguments]) in (1, 2)
        assert said in capsys.readouterr().err
        assert not Path(run).exists()


@pytest.mark.slow
def test_a_missing_library_is_named():
    code = (
        "import sys\nsys.modules['stable_baselines3'] = None\n"
        "from flashsac.experiments.baselines.algorithms import find_algorithm, learner_class\n"
        "learner_class(find_algorithm('sac'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    assert f"{MissingExtra.__name__}: sac needs stable_baselines3" in done.stderr
    assert 'pip install "flashsac[baselines]"' in done.stderr
