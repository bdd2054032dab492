"""What a sweep consists of: files, arguments, built-in ones; and what is refused before anything starts."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import signal
from pathlib import Path

import pytest
import torch

from flashsac.cli.main import main
from flashsac.config.checks import check, coerce
from flashsac.config.presets import LAPTOP
from flashsac.config.schema import DiagnosticsConfig, EnvConfig, to_dict
from flashsac.errors import RunDirectoryError
from flashsac.experiments.baselines import checkpoint
from flashsac.experiments.built_in import BUILT_IN, built_in
from flashsac.experiments.driver import Driver, State, Status, look_at
from flashsac.experiments.launchers.local import LocalLauncher
from flashsac.experiments.launchers.memory import trial_bytes
from flashsac.experiments.settings import config_of
from flashsac.experiments.sweep import Sweep, Variant
from flashsac.experiments.sweep_file import read_sweep
from flashsac.experiments.trial import Trial, is_finished, next_command
from flashsac.runs.seal import seal_readable
from tests.helpers import blocks

FILE = """
name = "std"
tasks = ["mujoco:HalfCheetah-v4", "dmc:walker-walk"]
seeds = 2
preset = "laptop"
[settings]
steps = 30_000
agent.batch_size = 64
[variants.low]
agent.target-std = 0.05
[variants.sac]
algorithm = "sac"
steps = 10_000
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        file = tmp_path / "sweep.toml"
        file.write_text(text)
        return file

    return write


def begin(one: Trial, **changes) -> None:
    """Write the config.json of a run that has begun, with other settings."""
    config = dataclasses.replace(one.config, **changes)
    content = {"task": one.task, "config": to_dict(config), "versions": {}, "machine": {}}
    one.run.mkdir(parents=True)
    (one.run / "config.json").write_text(seal_readable(content))


def fails(*arguments: str, capsys) -> str:
    assert main(["sweep", *arguments]) in (1, 2)
    return capsys.readouterr().err


def test_a_file_gives_every_task_variant_and_seed_once(write, tmp_path):
    trials = read_sweep(write(FILE)).trials(tmp_path)
    seen = {(trial.task, trial.variant, trial.seed): trial for trial in trials}
    assert len(trials) == len(seen) == 2 * 2 * 2
    assert len({trial.path for trial in trials}) == 8
    low = seen["mujoco:HalfCheetah-v4", "low", 1]
    assert low.path == str(tmp_path / "mujoco-HalfCheetah-v4" / "low" / "seed-1")
    assert low.config == dataclasses.replace(
        LAPTOP,
        steps=30_000,
        seed=1,
        run_dir=low.path,
        agent=dataclasses.replace(LAPTOP.agent, batch_size=64, target_std=0.05),
    )


def test_a_trial_is_a_command_that_anybody_can_type(write, tmp_path):
    trials = read_sweep(write(FILE)).trials(tmp_path)
    low, sac = trials[0], trials[1]
    given = "--preset laptop --seed 0 --run-dir".split()
    assert low.command()[:-6] == ["train", "mujoco:HalfCheetah-v4", *given, low.path]
    assert low.command()[-6:] == "--steps 30000 --agent.batch-size 64 --agent.target-std 0.05".split()
    assert low.command(resume=True) == ["resume", low.path, "--task", "mujoco:HalfCheetah-v4"]
    shared = "--steps 10000 --eval.every 5000 --eval.episodes 10"
    assert sac.command() == f"baseline sac {sac.task} --seed 0 --run-dir {sac.path} {shared}".split()
    assert sac.command(resume=True) == ["resume", sac.path, "--task", sac.task]
    assert Trial.from_json(low.to_json()) == low


def test_the_files_of_the_page_are_sweeps(write, tmp_path):
    first, second = (read_sweep(write(text)) for text in blocks("toml", "docs/experiments/sweep.md"))
    assert len(first.trials(tmp_path)) == 2 * 3 * 3
    assert second.search_trials == 20
    assert {name: str(part) for name, part in second.space.items()} == {
        "agent.learning_rate": "0.0001..0.001:log",
        "agent.blocks": "1, 2, 3",
    }


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("laptop", [False, True])
def test_every_built_in_sweep_can_begin(name, laptop, tmp_path):
    sweep = built_in(name, laptop=laptop)
    trials = sweep.trials(tmp_path)
    assert len(trials) == len(sweep)
    assert sweep.seeds == ((0, 1000, 2000) if laptop else (0, 1000, 2000, 3000, 4000))
    for trial in trials:
        check(coerce(trial.config))


def test_paper_benchmarks_have_all_of_the_papers_tasks():
    published = {"mujoco": 5, "dmc": 10, "myosuite": 10, "humanoidbench": 14, "gpu": 25, "vision": 8}
    assert {name: len(built_in(f"paper/{name}", laptop=False).tasks) for name in published} == published


def test_each_step_of_the_architecture_ablation_adds_one_part():
    sweep = built_in("ablation/architecture", laptop=False)
    configs = [config_of(sweep.tasks[0], sweep.preset, sweep.settings | v.settings) for v in sweep.variants]
    first, last = configs[0].agent, configs[-1].agent
    switches = "residual batch_norm cross_batch rms_norm reward_scaling weight_projection".split()
    assert [getattr(first, name) for name in switches] == [False] * 6
    assert first.value == "scalar"
    assert last == config_of(sweep.tasks[0], "parallel", {}).agent
    changed = [
        {name for name in vars(a.agent) if getattr(a.agent, name) != getattr(b.agent, name)}
        for a, b in itertools.pairwise(configs)
    ]
    steps = ["residual", "batch_norm cross_batch", "rms_norm", "value reward_scaling", "weight_projection"]
    assert changed == [set(step.split()) for step in steps]


@pytest.mark.parametrize(("laptop", "every"), [(True, 5_000), (False, 2_500_000)])
def test_the_architecture_ablation_measures_its_networks(laptop, every, tmp_path):
    """The paper explains the steps by their diagnostics."""
    trials = built_in("ablation/architecture", laptop=laptop).trials(tmp_path)
    assert {one.config.diagnostics.every for one in trials} == {every}


def test_runs_that_began_without_the_diagnostics_of_a_sweep_are_named(tmp_path, capsys):
    """They are the same runs otherwise, so they count as finished."""
    sweep = ["sweep", "mujoco:Hopper-v4", "--laptop", "--seeds", "6", "--out", str(tmp_path), "--dry-run"]
    for seed in range(5):
        run = tmp_path / "mujoco-Hopper-v4" / "flashsac" / f"seed-{seed}"
        run.mkdir(parents=True)
        every = DiagnosticsConfig(every=500 if seed == 0 else 0)
        config = dataclasses.replace(LAPTOP, seed=seed, run_dir=str(run), diagnostics=every)
        content = {"task": "mujoco:Hopper-v4", "config": to_dict(config), "versions": {}, "machine": {}}
        (run / "config.json").write_text(seal_readable(content))
    assert main([*sweep, "--set", "diagnostics.every=500"]) == 0
    _, note = capsys.readouterr().out.split("note: these runs began without the diagnostics of this sweep")
    names = [line.strip() for line in note.splitlines()[2:]]
    assert names == [*(f"mujoco:Hopper-v4 flashsac seed {seed}" for seed in (1, 2, 3)), "and 1 more"]
    assert main(sweep) == 0
    assert "note:" not in capsys.readouterr().out


def test_the_scaling_ablation_changes_one_thing_at_a_time():
    full = {v.name: v.settings for v in built_in("ablation/scaling", laptop=False).variants}
    assert full["batch_0.5k"] == {"agent.batch_size": 512}
    assert full["buffer_0.1M"] == {"replay.capacity": 100_000}
    assert full["width_critic1024_actor512"] == {"agent.critic_width": 1024, "agent.actor_width": 512}
    assert full["utd8"]["agent.updates_per_transition"] == pytest.approx(8 / 1024)
    assert len(full) == 1 + 4 + 3 + 4 + 3 + 4
    laptop = {v.name: v.settings for v in built_in("ablation/scaling", laptop=True).variants}
    assert laptop["width_critic64_actor32"] == {"agent.critic_width": 64, "agent.actor_width": 32}
    assert laptop["buffer_3k"] == {"replay.capacity": 3_000}
    assert "flashsac" in laptop


def test_the_command_line_names_tasks_settings_and_variants(tmp_path, capsys):
    arguments = ["mujoco:Hopper-v4", "mujoco:Ant-v4", "--laptop", "--out", str(tmp_path), "--dry-run"]
    assert main(["sweep", *arguments, "--vary", "agent.target-std=0.1,0.2", "compile=on,off", "--seeds", "0,7"]) == 0
    shown = capsys.readouterr().out
    assert "16 trials: 16 not started" in shown
    assert "mujoco:Ant-v4 target_std_0.2-compile_off seed 7" in shown
    assert main(["sweep", *arguments, "--set", "steps=2k", "--seeds", "3"]) == 0
    shown = capsys.readouterr().out
    assert "6 trials: 6 not started" in shown
    assert "0/2,000 steps" in shown
    assert not list(tmp_path.iterdir())  # a dry run leaves nothing


def test_a_count_of_seeds_of_a_built_in_sweep_means_the_papers(tmp_path, capsys):
    assert main(["sweep", "paper/mujoco", "--laptop", "--seeds", "2", "--out", str(tmp_path), "--dry-run"]) == 0
    assert "mujoco:Hopper-v4 flashsac seed 1000" in capsys.readouterr().out


def test_the_list_names_the_built_in_sweeps(capsys):
    assert main(["sweep", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in BUILT_IN)
    assert "120 runs, 36 with --laptop" in shown


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("agent.target_sdt = 0.1", "there is no setting agent.target_sdt. Did you mean agent.target_std"),
        ("batch_size = 64", "Did you mean agent.batch_size"),
        ("seed = 3", "seeds decides it"),
        ("agent.target_std = -1.0", "--agent.target-std must be above 0"),
        ("agent.blocks = 1.5", "--agent.blocks must be a whole number"),
        ('replay.storage = "tape"', "--replay.storage must be one of"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_starts(write, tmp_path, capsys, change, complaint):
    file = write(f'tasks = ["mujoco:Hopper-v4"]\n[variants.x]\n{change}\n')
    assert complaint in fails(str(file), "--out", str(tmp_path / "out"), capsys=capsys)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tasks = [", "is no TOML file"),
        ("seeds = 2", "which tasks?"),
        ('task = ["a"]', "there is no key 'task'. Did you mean tasks"),
        ('tasks = "mujoco:Hopper-v4"', "tasks has the wrong type"),
        ('tasks = ["mujoco:Hoper-v4"]', "Did you mean mujoco:Hopper-v4"),
        ('tasks = ["mujoco:Hopper-v4"]\npreset = "tiny"', "there is no preset 'tiny'"),
        ('tasks = ["mujoco:Hopper-v4"]\nseeds = 0', "has no trials"),
        ('tasks = ["mujoco:Hopper-v4"]\n[variants."a b"]\n[variants."a-b"]', "would share"),
        ('tasks = ["mujoco:Hopper-v4"]\n[vary]\nsteps = 5', "steps needs a list of values"),
        ('tasks = ["mujoco:Hopper-v4"]\n[variants.x]\nalgorithm = 3', "algorithm must be the name"),
        (
            'tasks = ["mujoco:Hopper-v4"]\n[variants.x]\nalgorithm = "sac"\nagent.atoms = 5',
            "x is a baseline, which has no agent.atoms",
        ),
        (
            'tasks = ["mujoco:Hopper-v4"]\n[vary]\nagent.atoms = [5, 9]\n[variants.x]\nalgorithm = "sac"',
            "vary: x is a baseline, which has no agent.atoms. It takes steps, eval.every",
        ),
        (
            'tasks = ["mujoco:Hopper-v4"]\n[search]\nagent.atoms = "5..9"\n[variants.x]\nalgorithm = "sac"',
            "a search chooses settings of FlashSAC, but the variant x is the baseline sac",
        ),
        ('tasks = ["mujoco:Hopper-v4"]\n[search]\nsteps = "many"', "LOW..HIGH"),
        ('tasks = ["mujoco:Hopper-v4", "mujoco:Ant-v4"]\n[search]\nagent.blocks = "1..3"', "one task"),
        ('tasks = ["mujoco:Hopper-v4"]\n[search]\nagent.blocks = "3..1"', "the lower end comes first"),
        ('tasks = ["mujoco:Hopper-v4"]\n[search]\nagent.blocks = "0..3"', "--agent.blocks must be at least 1"),
    ],
)
def test_a_wrong_file_is_refused(write, tmp_path, capsys, text, complaint):
    assert complaint in fails(str(write(text)), "--out", str(tmp_path / "out"), "--dry-run", capsys=capsys)


@pytest.mark.parametrize(
    ("task", "complaint"),
    [
        ("gym:Pendulm-v1", "Did you mean gym:Pendulum-v1"),
        ("gym:no_such_package:Pendulum-v1", "there is no module 'no_such_package'"),
        ("no_such_module:make_env", "If 'no_such_module' is a module of your own"),
        ("reach.envs:make", "If 'reach.envs' is a module of your own"),
        ("reach:make_envv", "has no function 'make_envv' that makes an environment. Did you mean make_env"),
    ],
)
def test_a_misspelt_task_is_refused_before_anything_starts(tmp_path, capsys, monkeypatch, task, complaint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reach.py").write_text("raise SystemExit('a driver runs no code of the user')\ndef make_env(): ...\n")
    assert complaint in fails(task, "reach:make_env", "--out", "out", "--dry-run", capsys=capsys)
    assert main(["sweep", "reach:make_env", "gym:Pendulum-v1", "--out", "out", "--dry-run"]) == 0


@pytest.mark.parametrize("source", ["from tests.toy_envs import *", "globals()['make_env'] = lambda: None"])
def test_a_module_that_names_its_functions_only_when_it_runs_is_not_refused(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dynamic_envs.py").write_text(source)
    assert main(["sweep", "dynamic_envs:make_env", "--out", "out", "--dry-run"]) == 0


def test_wrong_arguments_are_refused(tmp_path, capsys):
    out = ["--out", str(tmp_path)]
    assert "which sweep?" in fails(*out, capsys=capsys)
    assert "where to?" in fails("mujoco:Hopper-v4", capsys=capsys)
    assert "Did you mean ablation/scaling" in fails("ablation/scalling", *out, capsys=capsys)
    assert "write name=value" in fails("mujoco:Hopper-v4", *out, "--set", "steps", capsys=capsys)
    assert "whole number" in fails("mujoco:Hopper-v4", *out, "--seeds", "few", capsys=capsys)
    varied = fails("mujoco:Hopper-v4", *out, "--vary", "agent.target-std=0.05,abc", capsys=capsys)
    assert varied.startswith("error: --vary agent.target_std: 'abc' is no number")
    preset = fails("mujoco:Hopper-v4", *out, "--preset", "laptob", capsys=capsys)
    assert preset.startswith("error: --preset: there is no 'laptob'. Did you mean laptop?")
    assert "--launcher slurm" in fails("mujoco:Hopper-v4", *out, "--slurm", "timeout_min=5", capsys=capsys)
    assert "--jobs must be at least 1" in fails("mujoco:Hopper-v4", *out, "--jobs", "0", capsys=capsys)


def trial(tmp_path: Path, **changes) -> Trial:
    sweep = Sweep("t", ("mujoco:HalfCheetah-v4",), preset="laptop", settings={"steps": 30_000})
    return dataclasses.replace(sweep.trials(tmp_path)[0], **changes)


def baseline(tmp_path: Path, **changes) -> Trial:
    return trial(tmp_path, algorithm="sac", **changes)


def record(of: Trial, algorithm: str | None = "sac", changes=None, task=None, env=None, **settings) -> None:
    """Write the config.json that a baseline's run of this trial leaves, with other settings."""
    config = {"steps": 30_000, "seed": 0, "run_dir": of.path, "video": True, "max_invalid": 0.01, "threads": None}
    config |= {"env": dataclasses.asdict(EnvConfig(num_envs=1)) | (env or {}), "eval": {"every": 5000, "episodes": 10}}
    content = {"task": task or of.task, "config": config | settings, "versions": {}, "machine": {}, "id": "a"}
    if algorithm:
        content |= {"algorithm": algorithm, "library": "l 1", "hyperparameters": {"gamma": 0.9}, "changes": changes}
    of.run.mkdir(parents=True)
    (of.run / "config.json").write_text(seal_readable(content))


def test_a_baselines_run_is_the_one_of_its_trial(tmp_path):
    one = baseline(tmp_path)
    record(one, changes={}, video=False)  # a film says nothing of what was learned
    assert [status.state for status in look_at([one])] == [State.WAITING]


@pytest.mark.parametrize(
    ("recorded", "difference"),
    [
        ({"algorithm": "td3"}, "the algorithm is td3, not sac"),
        ({"algorithm": None}, "the algorithm is flashsac, not sac"),
        ({"changes": {"gamma": 0.9}}, "gamma is set to 0.9"),
        ({"task": "mujoco:Ant-v4"}, "the task is mujoco:Ant-v4"),
        ({"seed": 3}, "seed is 3, not 0"),
        ({"steps": 500}, "steps is 500, not 30000"),
        ({"minutes": 5.0}, "its length is 5 minutes, not 30000 steps"),
        ({"eval": {"every": 0, "episodes": 10}}, "eval.every is 0, not 5000"),
        ({"eval": {"every": 5000, "episodes": 3}}, "eval.episodes is 3, not 10"),
        ({"env": {"num_envs": 4}}, "env.num_envs is 4, not 1"),
        ({"env": {"max_episode_steps": 50}}, "env.max_episode_steps is 50, not None"),
        ({"env": {"blind": True}}, "env.blind is True, not False"),
        ({"env": {"options": ["a=1"]}}, "env.options is ('a=1',), not ()"),
    ],
)
def test_a_baseline_with_other_settings_is_not_taken_for_the_trial(tmp_path, recorded, difference):
    one = baseline(tmp_path)
    record(one, **{"changes": {}} | recorded)
    with pytest.raises(RunDirectoryError) as error:
        look_at([one])
    assert difference in str(error.value)


def test_a_baseline_takes_the_device_of_its_sweep_where_it_can(tmp_path):
    settings = {"steps": 30_000, "device": "cuda:1"}
    assert "cuda:1" in baseline(tmp_path, settings=settings).command()
    assert "cuda:1" not in trial(tmp_path, settings=settings, algorithm="crossq").command()


def test_a_baseline_in_the_place_of_a_flashsac_run_is_named_with_the_others(tmp_path):
    ours, sac = trial(tmp_path / "a"), baseline(tmp_path / "b")
    record(ours, changes={})
    record(sac, "td3", {})
    with pytest.raises(RunDirectoryError) as error:
        look_at([ours, sac])
    assert "the algorithm is sac, not flashsac" in str(error.value)
    assert "the algorithm is td3, not sac" in str(error.value)


def test_a_baseline_is_finished_once_its_last_checkpoint_is_whole(tmp_path):
    """Its last row is written before its last checkpoint."""
    one = baseline(tmp_path)
    record(one, changes={})
    (one.run / "metrics.csv").write_text("step,eval_return\n30000,5.0\n")
    assert not is_finished(one)
    for step, due, finished in ((29_000, False, False), (30_000, True, False), (30_000, False, True)):
        checkpoint.save(one.run, one.task, {"id": "a"}, step, {"evaluation_due": due, "learner": torch.zeros(2)})
        assert is_finished(one) == finished
    (manifest,) = one.run.rglob("manifest.json")
    manifest.write_text(manifest.read_text().replace("30000", "30001"))
    assert not is_finished(one)


@pytest.mark.slow
def test_whether_a_run_is_finished_is_told_without_its_replay(tmp_path):
    """A driver asks often, and a replay may have many gigabytes."""
    settings = {"steps": 60, "agent.warmup": 20, "agent.batch_size": 4, "compile": "off", "eval.every": 0}
    one = trial(tmp_path, task="tests.toy_envs:make_point", settings=settings | {"video": False})
    assert main(one.command()) == 0
    assert is_finished(one)
    for piece in (one.run / "replay").iterdir():
        piece.unlink()
    assert is_finished(one)
    for file in one.run.rglob("state.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    assert not is_finished(one)


class OneAtATime:
    """A launcher for one trial at a time, although it has places for all. Every trial fails."""

    slots = 8

    def __init__(self, code: int = 1):
        self.asked: list[tuple[int, bool]] = []
        self.code = code

    def fits(self, trial, running):
        self.asked.append((trial.seed, not running))
        return not running

    def start(self, trial):
        return self

    def poll(self):
        return self.code


class Silent:
    def __init__(self):
        self.said = []

    def say(self, line):
        self.said.append(line)

    def show(self, statuses):
        pass


def test_trials_wait_in_their_order_and_only_the_first_is_asked_for_room(tmp_path):
    launcher = OneAtATime()
    statuses = [Status(trial(tmp_path, seed=seed, path=str(tmp_path / str(seed)))) for seed in range(3)]
    assert Driver(statuses, launcher, Silent(), retries=0).run() == 1
    assert launcher.asked == [(0, True), (1, False), (1, True), (2, False), (2, True)]
    assert [status.state for status in statuses] == [State.FAILED] * 3


class StoppedAfterOne:
    """A launcher whose driver is told to stop once it has started a trial. The trial saves a checkpoint and ends."""

    slots = 1

    def fits(self, trial, running):
        return True

    def start(self, trial):
        self.trial, self.asked, self.stopped = trial, 0, False
        return self

    def poll(self):
        self.asked += 1
        if self.asked == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return 130 if self.stopped else None

    def stop(self):
        self.stopped = True
        begin(self.trial)
        (self.trial.run / "checkpoints" / "step-000000000050").mkdir(parents=True)


def test_trials_of_a_stopped_sweep_are_interrupted_or_were_not_started(tmp_path, capsys):
    arguments = ["mujoco:Hopper-v4", "--laptop", "--seeds", "3", "--out", str(tmp_path)]
    trials = Sweep("t", ("mujoco:Hopper-v4",), seeds=(0, 1, 2), preset="laptop").trials(tmp_path)
    statuses, view = [Status(one) for one in trials], Silent()
    statuses[2].state = State.ELSEWHERE
    assert Driver(statuses, StoppedAfterOne(), view).run() == 130
    assert [status.state.value for status in statuses] == ["interrupted", "not started", "elsewhere"]
    (said,) = view.said
    assert "a trial that is compiling saves when that is done; a minute or two" in said
    assert main(["sweep", *arguments, "--dry-run"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in shown[:3]] == ["interrupted mujoco:Hopper-v4 flashsac seed 0"] + [
        f"not started mujoco:Hopper-v4 flashsac seed {seed}" for seed in (1, 2)
    ]
    assert shown[3].startswith("3 trials: 1 interrupted, 2 not started; ")


@pytest.mark.parametrize(("code", "tries"), [(1, 3), (2, 1)])
def test_a_trial_that_cannot_begin_is_tried_once(tmp_path, code, tries):
    launcher, status = OneAtATime(code), Status(trial(tmp_path))
    assert Driver([status], launcher, Silent(), retries=2).run() == 1
    assert len(launcher.asked) == tries


def test_a_task_that_nothing_knows_ends_as_a_wrong_argument_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "gym:Pendulm-v1", "--preset", "laptop"]) == 2


def test_the_settings_of_a_trial_are_made_once(tmp_path):
    one = trial(tmp_path)
    assert one.config is one.config
    assert dataclasses.replace(one, seed=5).config.seed == 5
    assert Trial.from_json(one.to_json()) == one


def test_memory_limits_how_many_trials_start(tmp_path):
    one = trial(tmp_path)
    launcher = LocalLauncher(jobs=8, gpus=[], memory=2.5 * trial_bytes(one))
    assert launcher.fits(one, [one])
    assert not launcher.fits(one, [one, one])
    assert launcher.fits(trial(tmp_path, settings={"env.num_envs": 10**6}), [])  # alone: training itself refuses it


def test_a_trials_memory_grows_with_its_replay(tmp_path):
    small, large = (trial(tmp_path, settings={"steps": steps}) for steps in (30_000, 500_000))
    row = 4 * (17 + 6 + 3)  # HalfCheetah: 17 observations, 6 actions; reward and two flags
    assert math.isclose(trial_bytes(large) - trial_bytes(small), row * 470_000)


def test_a_slurm_job_is_queued_again_however_often_it_reaches_its_time_limit(tmp_path, monkeypatch):
    """A run may take many times the time limit of a partition. submitit's own limit is three."""
    pytest.importorskip("submitit")
    from submitit.core.utils import DelayedSubmission

    from flashsac.experiments.launchers.slurm import SlurmLauncher

    for name in ("sbatch", "srun"):
        (tmp_path / name).write_text("#!/bin/sh\necho Submitted batch job 7\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    SlurmLauncher(tmp_path / "jobs").start(trial(tmp_path))
    (submitted,) = (tmp_path / "jobs").glob("*_submitted.pkl")
    assert vars(DelayedSubmission.load(submitted))["_timeout_countdown"] > 1000


def test_published_ablations_have_the_same_names():
    """Curves of ours and of the paper lie over each other by these names."""
    file = Path(__file__).parent / "published_ablations.json"
    for group, names in json.loads(file.read_text()).items():
        ours = {variant.name for variant in built_in(f"ablation/{group}", laptop=False).variants}
        assert set(names) <= ours


def test_a_baseline_is_crossed_with_the_settings_that_it_has(write, tmp_path, capsys):
    text = 'tasks = ["mujoco:Hopper-v4"]\n[variants.sac]\nalgorithm = "sac"\n[vary]\nsteps = [100, 200]\n'
    file = write(text)
    trials = read_sweep(file).trials(tmp_path)
    assert [one.config.steps for one in trials] == [100, 200]
    refused = fails(str(file), "--out", str(tmp_path / "out"), "--vary", "agent.blocks=1,2", capsys=capsys)
    assert "sac-steps_100 is a baseline, which has no agent.blocks" in refused


def test_every_variant_of_a_vary_table_is_crossed_with_the_named_ones(write, tmp_path):
    text = 'tasks = ["mujoco:Hopper-v4"]\n[vary]\nagent.blocks = [1, 3]\n[variants.low]\nagent.target_std = 0.05\n'
    sweep = read_sweep(write(text))
    assert sweep.variants == tuple(
        Variant(f"low-blocks_{blocks}", {"agent.target_std": 0.05, "agent.blocks": blocks}) for blocks in (1, 3)
    )


def precision_in(command: list[str] | None) -> str:
    assert command is not None
    assert command[0] == "train"
    return command[command.index("--precision") + 1]


def test_the_first_trial_decides_the_precision_of_all(tmp_path):
    """Each would measure its own otherwise, and two seeds of one variant could compute differently."""
    sweep = Sweep("t", ("mujoco:Hopper-v4",), seeds=(0, 1), preset="laptop")
    chosen = precision_in(next_command(sweep.trials(tmp_path)[0]))
    assert chosen in ("fp32", "bf16", "fp16")
    other = "bf16" if chosen == "fp32" else "fp32"
    file = tmp_path / "precision.json"
    assert json.loads(file.read_text()) == {"precision": chosen}
    file.write_text(json.dumps({"precision": other}))  # the second measures nothing
    assert precision_in(next_command(sweep.trials(tmp_path)[1])) == other
    given = Sweep("t", ("mujoco:Hopper-v4",), preset="laptop", settings={"precision": chosen})
    assert precision_in(next_command(given.trials(tmp_path)[0])) == chosen


def test_a_sweep_goes_on_with_the_precision_that_its_runs_have(tmp_path):
    sweep = Sweep("t", ("mujoco:Hopper-v4",), seeds=(0, 1, 2, 3), preset="laptop")
    *begun, last = sweep.trials(tmp_path)
    for one, precision in zip(begun, ("fp16", "fp32", "fp16"), strict=True):
        begin(one, precision=precision)
    assert precision_in(next_command(last)) == "fp16"


def test_a_baseline_has_no_precision(tmp_path):
    assert "--precision" not in (next_command(baseline(tmp_path)) or [])
