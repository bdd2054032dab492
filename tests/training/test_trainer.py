"""The loop: what overlaps, in which order, and that it repeats itself."""

from __future__ import annotations

import sys
import types

import pytest
import torch

import flashsac
from flashsac import api
from flashsac.errors import FlashSACError, RunDirectoryError
from flashsac.policies.evaluation import Evaluator
from flashsac.runs.directory import Run, read_config
from flashsac.runs.metrics import MetricsLog, read_metrics
from flashsac.sims.base import OverlappingVecEnv
from flashsac.sims.make import make_env
from flashsac.training import trainer
from flashsac.training.progress import Progress
from tests import toy_envs
from tests.helpers import TINY, lose_newest_checkpoint, tiny_run

SETTINGS = TINY | dict(steps=400, eval=dict(every=0), log_every=40, quiet=True)


def rows(run_dir):
    timings = ("seconds", "steps_per_second")
    return [{k: v for k, v in row.items() if k not in timings} for row in read_metrics(run_dir / "metrics.csv")]


def test_envpool_overlaps_and_others_do_not():
    config = flashsac.configure("mujoco:Hopper-v4", "laptop").env
    assert isinstance(make_env("mujoco:Hopper-v4", config), OverlappingVecEnv)
    assert not isinstance(make_env("gym:Pendulum-v1", config), OverlappingVecEnv)


def test_overlap_learns_while_the_simulator_steps_and_is_deterministic(tmp_path, monkeypatch):
    """Every update falls between sending and receiving, none is lost, and the same seed gives the same run."""
    events: list[str] = []
    real = trainer.make_env

    def watched(task, config, **options):
        env = real(task, config, **options)
        for name in ("send", "receive"):
            method = getattr(env, name)
            setattr(env, name, lambda *a, name=name, method=method: (events.append(name), method(*a))[1])
        return env

    monkeypatch.setattr(trainer, "make_env", watched)
    update = trainer.Agent.update
    monkeypatch.setattr(trainer.Agent, "update", lambda self: (events.append("update"), update(self))[1])
    runs = []
    for name in ("first", "second"):
        events.clear()
        result = flashsac.train("mujoco:Hopper-v4", run_dir=str(tmp_path / name), **SETTINGS)
        runs.append(rows(result.run_dir))
    assert runs[0] == runs[1]
    updates = events.count("update")
    assert updates == 75, "a quarter of the 300 transitions after the warm-up"
    assert updates == runs[0][-1]["updates"]
    last = len(events) - 1 - events[::-1].index("receive")
    inside, outside = 0, 0
    sent = False
    for event in events[: last + 1]:
        sent = event == "send" or (sent and event != "receive")
        inside += event == "update" and sent
        outside += event == "update" and not sent
    assert outside == 0
    assert inside >= updates - 1, "only what the last step earned is learned after it"


@pytest.mark.parametrize("overlap", [True, False])
def test_overlap_is_a_switch(tmp_path, monkeypatch, overlap):
    seen = []
    train = trainer.Trainer.train
    monkeypatch.setattr(trainer.Trainer, "train", lambda self: (seen.append(self.overlaps), train(self))[1])
    settings = SETTINGS | {"env": SETTINGS["env"] | {"overlap": overlap}}
    result = flashsac.train("mujoco:Hopper-v4", run_dir=str(tmp_path / "run"), **settings)
    assert seen == [overlap]
    assert rows(result.run_dir)[-1]["updates"] == 75


def test_updates_that_are_owed_survive_a_stop(tmp_path, monkeypatch):
    """With overlap a checkpoint falls between a step and the updates it earned: none may be lost or done twice."""
    act, stops = trainer.Trainer._act, [150, 250]

    def act_and_stop(self):
        if stops and self.step >= stops[0]:
            stops.pop(0)
            self.stop()
        return act(self)

    monkeypatch.setattr(trainer.Trainer, "_act", act_and_stop)
    run = tmp_path / "run"
    interrupted = [flashsac.train("mujoco:Hopper-v4", run_dir=str(run), **SETTINGS).interrupted]
    interrupted += [flashsac.resume(run, quiet=True).interrupted for _ in range(2)]
    assert interrupted == [True, True, False]
    assert rows(run)[-1]["updates"] == 75


def test_returns_discounts_and_schedule_are_those_of_the_settings(tmp_path):
    agent = SETTINGS["agent"] | dict(n_step=3, discount=0.9)
    result = flashsac.train(toy_envs.make_point, run_dir=str(tmp_path / "run"), **SETTINGS | dict(agent=agent))
    assert result.row["updates"] == 75
    assert result.row["learning_rate"] == pytest.approx(1.5e-4, rel=1e-6), "the schedule ends with the run"
    again = trainer.Trainer(Run.open(result.run_dir), toy_envs.make_point, resume=True, quiet=True)
    discounts = again.replay.sample(2000, torch.Generator().manual_seed(0)).discount
    again.close()
    # Three steps ahead, or one or two where the time limit comes first; it ends nothing for good.
    assert discounts.unique().tolist() == pytest.approx([0.729, 0.81, 0.9])
    assert again.agent.reward_scale.discount == 0.9


def test_a_directory_with_hidden_files_is_not_ours(tmp_path):
    (tmp_path / ".git").mkdir()
    with pytest.raises(RunDirectoryError, match="not an empty directory"):
        flashsac.train("gym:Pendulum-v1", **SETTINGS, run_dir=str(tmp_path))
    assert (tmp_path / ".git").is_dir()


def test_a_run_that_would_end_before_it_learns_is_refused(tmp_path):
    with pytest.raises(FlashSACError, match="end before learning begins, after --agent.warmup 5,000"):
        flashsac.train("gym:Pendulum-v1", preset="laptop", steps=300, run_dir=str(tmp_path / "run"))


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
    log = MetricsLog(tmp_path, resume_step=200)
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
    tries: list[tuple] = []

    def full(*scalar):
        tries.append(scalar)
        raise OSError("no space")

    log = MetricsLog(tmp_path, wandb_project="robots", say=said.append)
    monkeypatch.setattr(log._tensorboard, "add_scalar", full)
    for step in (100, 200):
        log.write({"step": step, "return": 1.5})
    log.close()
    assert [row["step"] for row in read_metrics(tmp_path / "metrics.csv")] == [100, 200]
    assert len(tries) == 1
    assert said == [
        "warning: nothing more is logged to TensorBoard (no space); training goes on, metrics.csv has it all",
        "warning: nothing more is logged to W&B (no network); training goes on, metrics.csv has it all",
    ]


def test_wandb_runs_go_on_under_one_id(tmp_path, monkeypatch):
    """A stand-in for the package, which wants an account: every start of a run must name the same id."""
    started = []
    module = types.ModuleType("wandb")
    module.init = lambda **settings: started.append(settings) or types.SimpleNamespace(log=print, finish=print)
    monkeypatch.setitem(sys.modules, "wandb", module)
    for step in (None, 0):
        MetricsLog(tmp_path, resume_step=step, wandb_project="robots").close()
    first, second = started
    assert first["id"] == second["id"]
    assert len(first["id"]) == 16
    assert {"project": "robots", "resume": "allow"}.items() <= first.items()


def test_what_is_judged_is_what_is_used(tmp_path, monkeypatch):
    """Of a run in bf16 too: the policy that is scored acts like the file that is loaded afterwards, to the last bit."""
    judged, judge = [], Evaluator.judge
    monkeypatch.setattr(Evaluator, "judge", lambda self, policy: (judged.append(policy), judge(self, policy))[1])
    run = tiny_run(tmp_path / "run", precision="bf16", eval=dict(every=600, episodes=2))
    loaded = flashsac.load_policy(run, "last")
    obs = {"actor": torch.randn(64, loaded.obs_dim, generator=torch.Generator().manual_seed(0))}
    assert judged[-1].act(obs).equal(loaded.act(obs))


def test_a_resumed_run_keeps_its_precision(tmp_path, monkeypatch):
    """Whatever "auto" would come to now."""
    run = tiny_run(tmp_path / "run", precision="bf16", steps=600, checkpoint_every=200)
    lose_newest_checkpoint(run)
    monkeypatch.setattr(api, "fastest_precision", lambda device: pytest.fail("measured again"))
    resumed = flashsac.resume(run, toy_envs.make_point, quiet=True)
    assert resumed.step == 600
    assert read_config(run)[1].precision == "bf16"


def test_the_time_left_is_counted_from_when_learning_goes_at_its_pace(monkeypatch, capfd):
    now = [0.0]
    monkeypatch.setattr("flashsac.training.progress.time.monotonic", lambda: now[0])
    progress = Progress(10_000)
    progress.begin(0)
    now[0] = 100.0  # five thousand random steps, then a long compilation
    progress.learning(5_000)
    now[0] = 110.0
    progress.learning(5_100)
    progress.row({"step": 5_100.0, "steps_per_second": 10.0, "eval_return": 0.0})
    assert "left 8:10" in capfd.readouterr().out, "4,900 steps at ten a second"


def test_the_trainer_says_when_that_is(tmp_path, monkeypatch):
    paces = []
    monkeypatch.setattr(Progress, "learning", lambda self, step: paces.append(step))
    flashsac.train("gym:Pendulum-v1", run_dir=str(tmp_path / "run"), **SETTINGS)
    assert paces
    assert min(paces) >= TINY["agent"]["warmup"]
