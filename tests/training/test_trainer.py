"""The loop: what overlaps, in which order, and that it repeats itself."""

from __future__ import annotations

import contextlib
import re
import sys
import time
import types

import gymnasium
import pytest
import torch

import flashsac
from flashsac.errors import FlashSACError, RunDirectoryError
from flashsac.policies.evaluation import Evaluator
from flashsac.runs.directory import Run, read_config
from flashsac.runs.metrics import MetricsLog, read_metrics
from flashsac.sims.base import OverlappingVecEnv
from flashsac.sims.make import make_env
from flashsac.training import start
from flashsac.training.hooks import Hooks
from flashsac.training.progress import Progress
from flashsac.training.start import resume_run
from tests import toy_envs
from tests.helpers import TINY, StopAt, lose_newest_checkpoint, tiny_run

pytestmark = pytest.mark.slow

SETTINGS = TINY | dict(steps=400, eval=dict(every=0), log_every=40, quiet=True)


def rows(run_dir):
    timings = ("seconds", "steps_per_second")
    return [{k: v for k, v in row.items() if k not in timings} for row in read_metrics(run_dir / "metrics.csv")]


def test_envpool_overlaps_and_others_do_not():
    config = flashsac.configure("mujoco:Hopper-v4", "laptop").env
    assert isinstance(make_env("mujoco:Hopper-v4", config), OverlappingVecEnv)
    assert not isinstance(make_env("gym:Pendulum-v1", config), OverlappingVecEnv)


class Order(Hooks):
    """The order in which things happen."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def after_phase(self, trainer, phase):
        self.events.append(phase)

    def after_update(self, trainer, metrics):
        self.events.append("update")


def updates_between(events: list[str], before: str, after: str) -> int:
    """Updates whose nearest phases on both sides are these."""
    phases = [event for event in events if event not in ("learning",)]
    count, last = 0, ""
    for index, event in enumerate(phases):
        if event == "update":
            following = next((other for other in phases[index:] if other != "update"), "")
            count += (last, following) == (before, after)
        else:
            last = event
    return count


def test_overlap_learns_while_the_simulator_steps_and_is_deterministic(tmp_path):
    """Every update falls between sending and receiving, none is lost, and the same seed gives the same run."""
    runs, orders = [], [Order(), Order()]
    for name, order in zip(("first", "second"), orders, strict=True):
        result = flashsac.train("mujoco:Hopper-v4", run_dir=str(tmp_path / name), hooks=[order], **SETTINGS)
        runs.append(rows(result.run_dir))
    assert runs[0] == runs[1]
    events = orders[0].events
    updates = events.count("update")
    assert updates == 75, "a quarter of the 300 transitions after the warm-up"
    assert updates == runs[0][-1]["updates"]
    inside = updates_between(events, "simulation", "simulation")
    assert inside >= updates - 1, "only what the last step earned is learned after it"


def test_without_overlap_learning_comes_after_the_step(tmp_path):
    order, settings = Order(), SETTINGS | {"env": SETTINGS["env"] | {"overlap": False}}
    result = flashsac.train("mujoco:Hopper-v4", run_dir=str(tmp_path / "run"), hooks=[order], **settings)
    assert updates_between(order.events, "replay", "acting") >= 74, "the last ones have no action after them"
    assert updates_between(order.events, "simulation", "simulation") == 0
    assert rows(result.run_dir)[-1]["updates"] == 75


def test_updates_that_are_owed_survive_a_stop(tmp_path):
    """With overlap a checkpoint falls between a step and the updates it earned: none may be lost or done twice."""
    run, stop = tmp_path / "run", StopAt(150, 250)
    interrupted = [flashsac.train("mujoco:Hopper-v4", run_dir=str(run), hooks=[stop], **SETTINGS).interrupted]
    interrupted += [flashsac.resume(run, quiet=True, hooks=[stop]).interrupted for _ in range(2)]
    assert interrupted == [True, True, False]
    assert rows(run)[-1]["updates"] == 75


def test_hooks_are_told_of_rows_and_checkpoints(tmp_path):
    class Log(Hooks):
        rows, saved = [], []

        def after_row(self, trainer, row):
            self.rows.append(row["step"])

        def after_save(self, trainer, checkpoint):
            assert (checkpoint / "manifest.json").exists()
            self.saved.append(trainer.step)

    flashsac.train(toy_envs.make_point, run_dir=str(tmp_path / "run"), hooks=[Log()], checkpoint_every=200, **SETTINGS)
    assert Log.rows == list(range(40, 401, 40))
    assert Log.saved == [200, 400]


def test_config_json_is_written_once_when_all_is_settled(tmp_path):
    """An environment of the user's own decides how many there are; nothing is written before that is known."""
    run, seen = tmp_path / "run", []

    def make():
        seen.append((run / "config.json").exists())
        return toy_envs.make_point()

    flashsac.train(make, run_dir=str(run), **SETTINGS)
    assert seen
    assert not any(seen)
    assert read_config(run)[1].env.num_envs == 2


def test_returns_discounts_and_schedule_are_those_of_the_settings(tmp_path):
    agent = SETTINGS["agent"] | dict(n_step=3, discount=0.9)
    result = flashsac.train(toy_envs.make_point, run_dir=str(tmp_path / "run"), **SETTINGS | dict(agent=agent))
    assert result.row["updates"] == 75
    assert result.row["learning_rate"] == pytest.approx(1.5e-4, rel=1e-6), "the schedule ends with the run"
    again = resume_run(Run.open(result.run_dir), toy_envs.make_point, quiet=True)
    discounts = again.session.agent.replay.sample(2000, torch.Generator().manual_seed(0)).discount
    again.close()
    # Three steps ahead, or one or two where the time limit comes first; it ends nothing for good.
    assert discounts.unique().tolist() == pytest.approx([0.729, 0.81, 0.9])
    assert again.session.agent.reward_scale.discount == 0.9


def test_a_directory_with_hidden_files_is_not_ours(tmp_path):
    (tmp_path / ".git").mkdir()
    with pytest.raises(RunDirectoryError, match="not an empty directory"):
        flashsac.train("gym:Pendulum-v1", **SETTINGS, run_dir=str(tmp_path))
    assert (tmp_path / ".git").is_dir()


@pytest.mark.parametrize("steps", [1, 60])
def test_a_run_shorter_than_its_warm_up_learns_in_its_second_half(tmp_path, steps, capfd):
    """A trial of an environment: few steps, all other settings as they are."""
    agent = SETTINGS["agent"] | dict(warmup=5_000)
    run = tmp_path / "run"
    settings = SETTINGS | dict(steps=steps, agent=agent, quiet=False)
    result = flashsac.train(toy_envs.make_point, run_dir=str(run), **settings)
    assert f"shortened to {steps // 2:,}." in capfd.readouterr().out
    assert read_config(run)[1].agent.warmup == steps // 2, "a resumed run must not wait for another warm-up"
    assert (result.step, result.row["updates"] > 0) == (max(2, steps), steps > 1)


def test_a_short_run_is_resumed_exactly(tmp_path):
    settings = SETTINGS | dict(steps=100, log_every=10, agent=SETTINGS["agent"] | dict(warmup=5_000))
    alone, stopped = tmp_path / "alone", tmp_path / "stopped"
    flashsac.train(toy_envs.make_point, run_dir=str(alone), **settings)
    flashsac.train(toy_envs.make_point, run_dir=str(stopped), hooks=[StopAt(30)], **settings)
    flashsac.resume(stopped, toy_envs.make_point, quiet=True)
    assert rows(stopped) == rows(alone)


def test_a_short_run_is_refused_for_its_spaces_and_its_directory(tmp_path):
    """These come before anything about the number of steps."""
    discrete = lambda: gymnasium.make("CartPole-v1")
    with pytest.raises(FlashSACError, match="Discrete"):
        flashsac.train(discrete, preset="laptop", steps=300, run_dir=str(tmp_path / "run"))
    tabular = lambda: gymnasium.wrappers.TransformObservation(
        gymnasium.make("Pendulum-v1"), lambda obs: 0, gymnasium.spaces.Discrete(3)
    )
    with pytest.raises(FlashSACError, match="Box observations"):
        flashsac.train(tabular, preset="laptop", steps=300, run_dir=str(tmp_path / "run"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").touch()
    with pytest.raises(RunDirectoryError, match="not an empty directory"):
        flashsac.train(toy_envs.make_point, preset="laptop", steps=300, run_dir=str(tmp_path / "run"))
    trained = tiny_run(tmp_path / "trained")
    with pytest.raises(RunDirectoryError, match="already holds a run"):
        flashsac.train(toy_envs.make_point, preset="laptop", steps=300, run_dir=str(trained))


def fails_at_once():
    return toy_envs.Breaks(after=0)


def test_a_run_that_trained_nothing_does_not_block_the_next_one(tmp_path, capfd):
    run = tmp_path / "run"
    with pytest.raises(ZeroDivisionError):
        flashsac.train(fails_at_once, run_dir=str(run), **SETTINGS)
    assert (run / "config.json").exists()
    assert (run / "metrics.csv").exists()
    flashsac.train(toy_envs.make_point, run_dir=str(run), **SETTINGS | dict(seed=1, quiet=False))
    assert "trained anything; this run takes its place" in capfd.readouterr().out
    assert read_config(run)[1].seed == 1
    assert len(rows(run)) == 10
    with pytest.raises(RunDirectoryError, match="already holds a run"):
        flashsac.train(toy_envs.make_point, run_dir=str(run), **SETTINGS)


@pytest.mark.parametrize(
    "file", ["notes.txt", "metrics-damaged.csv", "checkpoints/best.safetensors", "tensorboard/profile.txt", "link"]
)
def test_a_run_that_trained_nothing_is_kept_if_there_is_anything_else(tmp_path, file):
    run = tmp_path / "run"
    with pytest.raises(ZeroDivisionError):
        flashsac.train(fails_at_once, run_dir=str(run), **SETTINGS)
    if file == "link":
        (run / file).symlink_to(tmp_path)
    else:
        (run / file).parent.mkdir(exist_ok=True)
        (run / file).touch()
    before = sorted(run.rglob("*"))
    with pytest.raises(RunDirectoryError, match="already holds a run"):
        flashsac.train(toy_envs.make_point, run_dir=str(run), **SETTINGS)
    assert sorted(run.rglob("*")) == before


def test_a_run_that_begins_in_another_process_is_left_alone(tmp_path):
    run = tmp_path / "run"
    begun = start.new_run(
        toy_envs.make_point, flashsac.configure(toy_envs.make_point, **TINY, run_dir=str(run)), quiet=True
    )
    with contextlib.closing(begun), pytest.raises(RunDirectoryError, match="another process is training"):
        flashsac.train(toy_envs.make_point, run_dir=str(run), **SETTINGS)
    assert (run / "config.json").exists()


def test_environments_that_take_long_to_make_are_announced(tmp_path, capfd):
    def slow():
        time.sleep(1.0)
        return toy_envs.make_point()

    flashsac.train(slow, run_dir=str(tmp_path / "slow"), **SETTINGS | dict(steps=20, quiet=False))
    assert capfd.readouterr().out.startswith("making 2 environments ...")


def test_a_config_and_settings_beside_it_are_refused():
    with pytest.raises(FlashSACError, match="beside it, preset, steps"):
        flashsac.train("gym:Pendulum-v1", flashsac.TrainConfig(), preset="laptop", steps=300)


def test_a_run_that_cannot_begin_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FlashSACError):
        flashsac.train("no_such_module:make_env", **SETTINGS)
    assert not list(tmp_path.glob("runs/*"))


def test_metrics_of_an_older_version_are_kept(tmp_path):
    """A run resumed after a column was added; and the line that a crash cut off goes."""
    (tmp_path / "metrics.csv").write_text("step,return\n100,1.5\n200,2.5\n300\n")
    log = MetricsLog(tmp_path, columns=["step", "return", "velocity_loss"], resume_step=200)
    log.write({"step": 300, "return": 3.5, "velocity_loss": 0.25})
    log.close()
    assert read_metrics(tmp_path / "metrics.csv") == [
        {"step": 100, "return": 1.5},
        {"step": 200, "return": 2.5},
        {"step": 300, "return": 3.5, "velocity_loss": 0.25},
    ]


def test_a_log_that_fails_is_left_out_and_the_others_go_on(tmp_path, monkeypatch):
    class Down:
        def log(self, row, step):
            raise RuntimeError("no network")

        def finish(self):
            raise RuntimeError("no network")

    module = types.ModuleType("wandb")
    module.init = lambda **settings: Down()
    monkeypatch.setitem(sys.modules, "wandb", module)
    said: list[str] = []
    log = MetricsLog(tmp_path, columns=["step", "return"], wandb_project="robots", say=said.append)
    for step in (100, 200):
        log.write({"step": step, "return": 1.5})
    log.close()
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.csv")] == [100, 200]
    assert said == [
        "warning: nothing more is logged to W&B (no network); training goes on, metrics.csv has it all",
    ]


def test_trackio_gets_the_rows_under_one_name(tmp_path, monkeypatch):
    """A stand-in for the package: every start of a run must name the same run, and log the row's numbers at its step."""
    started, logged = [], []
    module = types.ModuleType("trackio")
    log = lambda row, step: logged.append((step, row["return"]))
    module.init = lambda **settings: started.append(settings) or types.SimpleNamespace(log=log, finish=lambda: None)
    monkeypatch.setitem(sys.modules, "trackio", module)
    for resume, step in ((None, 100), (100, 200)):
        metrics = MetricsLog(tmp_path, columns=["step", "return"], resume_step=resume, trackio_project="robots")
        metrics.write({"step": step, "return": 1.5})
        metrics.close()
    first, second = started
    assert (first["project"], first["resume"]) == ("robots", "allow")
    assert first["name"] == second["name"]
    assert first["name"].startswith(tmp_path.name)
    assert logged == [(100, 1.5), (200, 1.5)]


def test_wandb_that_cannot_begin_does_not_keep_a_run_from_beginning(tmp_path, monkeypatch):
    def down(**settings):
        raise RuntimeError("no network")

    module = types.ModuleType("wandb")
    module.init = down
    monkeypatch.setitem(sys.modules, "wandb", module)
    said: list[str] = []
    log = MetricsLog(tmp_path, columns=["step"], wandb_project="robots", say=said.append)
    log.write({"step": 100})
    log.close()
    assert len(said) == 1
    assert "W&B (no network)" in said[0]


def test_wandb_runs_go_on_under_one_id(tmp_path, monkeypatch):
    """A stand-in for the package, which wants an account: every start of a run must name the same id."""
    started = []
    module = types.ModuleType("wandb")
    module.init = lambda **settings: started.append(settings) or types.SimpleNamespace(log=print, finish=print)
    monkeypatch.setitem(sys.modules, "wandb", module)
    for step in (None, 0):
        MetricsLog(tmp_path, columns=["step"], resume_step=step, wandb_project="robots").close()
    first, second = started
    assert first["id"] == second["id"]
    assert len(first["id"]) == 16
    assert {"project": "robots", "resume": "allow"}.items() <= first.items()


def test_what_is_judged_is_what_is_used(tmp_path, monkeypatch):
    """Of a run in bf16 too: the policy that is scored acts like the file that is loaded afterwards, to the last bit."""
    judged, evaluate = [], Evaluator.evaluate
    monkeypatch.setattr(Evaluator, "evaluate", lambda self, policy: (judged.append(policy), evaluate(self, policy))[1])
    run = tiny_run(tmp_path / "run", precision="bf16", eval=dict(every=600, episodes=2))
    loaded = flashsac.load_policy(run, "last")
    obs = {"actor": torch.randn(64, loaded.obs_dim, generator=torch.Generator().manual_seed(0))}
    assert judged[-1].act(obs).equal(loaded.act(obs))


def test_a_resumed_run_keeps_its_precision(tmp_path, monkeypatch):
    """Whatever "auto" would come to now."""
    run = tiny_run(tmp_path / "run", precision="bf16", steps=600, checkpoint_every=200)
    lose_newest_checkpoint(run)
    monkeypatch.setattr(start, "fastest_precision", lambda device: pytest.fail("measured again"))
    resumed = flashsac.resume(run, toy_envs.make_point, quiet=True)
    assert resumed.step == 600
    assert read_config(run)[1].precision == "bf16"


def test_on_a_terminal_evaluations_stay_above_the_bar(monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    progress = Progress(10_000)
    progress.begin(0)
    for step, measured in ((2_000, {}), (4_000, {"eval_return": 12.5}), (6_000, {})):
        progress.row(
            dict(step=step, updates=0, seconds=step / 1000, steps_per_second=1.0) | {"return": -7.0} | measured
        )
    progress.close()
    lines = re.findall(r"step +([\d,]+)/10,000  return -7  evaluated 12\.5  .* steps/s", capfd.readouterr().out)
    assert lines == ["4,000"]


def test_speed_and_time_left_are_those_of_learning(monkeypatch, capfd):
    now = [0.0]
    monkeypatch.setattr("flashsac.training.progress.time.monotonic", lambda: now[0])
    progress = Progress(10_000)
    progress.begin(0)

    def line(step: int, updates: int, seconds: float, at: float) -> str:
        now[0] = at
        progress.row(dict(step=step, updates=updates, seconds=seconds, steps_per_second=1.0, eval_return=0.0))
        return capfd.readouterr().out

    random = line(4_000, 0, 2.0, 10.0)
    assert "2000 steps/s  random steps" in random
    assert "left" not in random
    assert "left" not in line(5_000, 10, 102.0, 120.0), "a long compilation says nothing about the rest"
    assert "10 steps/s  left 8:10" in line(5_100, 20, 112.0, 130.0), "4,900 steps at ten a second"
    assert "20 steps/s  left 5:14" in line(5_300, 40, 122.0, 140.0), "300 steps in 20 s, 4,700 to go"
    assert "left" not in line(10_000, 500, 400.0, 500.0), "the last line"


def test_a_resumed_run_gives_no_time_left_before_it_knows_its_pace(capfd):
    progress = Progress(10_000)
    progress.begin(9_000)
    progress.row(dict(step=9_010, updates=900, seconds=1.0, steps_per_second=10.0, eval_return=0.0))
    assert "left" not in capfd.readouterr().out
