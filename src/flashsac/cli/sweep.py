"""`flashsac sweep`: many runs, from a file, a list of tasks, or built in."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from flashsac.cli.parsing import parse, whole_number
from flashsac.cli.sweep_text import assignment, search_space
from flashsac.config.schema import PresetName
from flashsac.errors import FlashSACError, UsageError
from flashsac.experiments.built_in import BUILT_IN, built_in
from flashsac.experiments.driver import Driver, State, Status, look_at, notes
from flashsac.experiments.launchers.base import Launcher
from flashsac.experiments.launchers.local import LocalLauncher, cores
from flashsac.experiments.search import check_search, search
from flashsac.experiments.sweep import PAPER_STRIDE, Sweep, crossed, seeds_from_count
from flashsac.experiments.sweep_file import read_sweep
from flashsac.experiments.sweep_view import SweepView, lines
from flashsac.system.limits import AtLeast, check_limits

QUESTION = "which sweep? usage: flashsac sweep FILE.toml --out DIR. `flashsac sweep --list` names the built-in ones."


@dataclasses.dataclass(frozen=True)
class SweepOptions:
    """Train tasks x settings x seeds. Start it again with the same --out to go on: finished runs are skipped, and
    interrupted ones are resumed."""

    sweep: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="FILE.toml | NAME | TASK ...", help_behavior_hint="(required)"),
    ] = ()
    """What to train: a TOML file (docs/experiments/sweep.md), a built-in sweep, or tasks."""
    out: Annotated[str | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(required)")] = None
    """Directory of the runs: DIR/TASK/VARIANT/seed-N."""
    list_built_in: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(name="list")] = False
    """List the built-in sweeps."""
    laptop: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """The laptop size of a built-in sweep, or the preset laptop for tasks."""
    preset: PresetName | None = None
    """Preset of all runs (default: the sweep's, or the task's)."""
    seeds: str | None = None
    """A number of seeds (3), or the seeds themselves (0,1,2)."""
    set: tuple[str, ...] = ()
    """Settings of all runs, name=value: steps=30000 agent.batch-size=64."""
    vary: tuple[str, ...] = ()
    """Settings to compare, name=value,value,...: every combination is a variant."""
    search: tuple[str, ...] = ()
    """Settings that Optuna chooses (needs the search extra), name=LOW..HIGH, name=LOW..HIGH:log or
    name=value,value,...: agent.learning-rate=1e-5..1e-3:log agent.blocks=1,2,3."""
    trials: Annotated[int | None, AtLeast(1)] = None
    """Combinations that a search tries, each with every seed (default: 20)."""
    launcher: Literal["local", "slurm", "ray"] = "local"
    """The place of the runs: processes of this machine, SLURM jobs (needs the slurm extra), or Ray (needs the ray
    extra)."""
    slurm: tuple[str, ...] = ()
    """What SLURM jobs ask for, name=value, by submitit's names: timeout_min=600 slurm_partition=gpu gpus_per_node=1."""
    ray_address: str | None = None
    """Address of a Ray cluster that runs (default: RAY_ADDRESS, or a cluster that is started here)."""
    jobs: Annotated[int | None, AtLeast(1)] = None
    """Runs at a time (default: one for each core, or for each GPU where there are some; 100 SLURM jobs)."""
    retries: Annotated[int, AtLeast(0)] = 1
    """How often a run that failed is tried again."""
    dry_run: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Show the runs and how far they are, and start none."""


def main(arguments: list[str]) -> int:
    """The command."""
    options = parse(SweepOptions, arguments, "sweep")
    check_limits(options)
    if options.list_built_in:
        return _list()
    if not options.sweep:
        raise UsageError(QUESTION)
    if options.out is None:
        raise UsageError("where to? Name a directory for the runs: --out DIR")
    sweep, out = chosen_sweep(options), Path(options.out).absolute()
    trials = sweep.trials(out)
    if sweep.space:
        check_search(sweep)
    if options.dry_run:
        print("\n".join(_plan(sweep) if sweep.space else _dry_run(look_at(trials), options.jobs or cores())))
        return 0
    launcher = _launcher(options)
    try:
        with SweepView(launcher.slots) as view:
            code = _run(sweep, out, launcher, view, options.retries)
    finally:
        launcher.close()
    if code:
        print(f"to go on:\n  flashsac {shlex.join(['sweep', *arguments])}")
    else:
        print(f"all runs are finished. To compare them:\n  flashsac report {options.out} --out {options.out}/report")
    return code


def _run(sweep: Sweep, out: Path, launcher: Launcher, view: SweepView, retries: int) -> int:
    """Drive a sweep or a search; returns the exit code."""
    if sweep.space:
        view.say(f"{sweep.name}: a search of {sweep.search_trials} trials in {out}")
        return search(sweep, out, launcher, view, retries=retries)
    statuses = look_at(sweep.trials(out))
    view.say(f"{sweep.name}: {len(statuses)} trials in {out}, up to {launcher.slots} at a time")
    for note in notes(statuses):
        view.say(note)
    code = Driver(statuses, launcher, view, retries=retries).run()
    for status in statuses:
        if status.state is State.FAILED:
            view.say(f"failed: {status.trial.name}: {status.reason}. Its output: {status.trial.log}")
    return code


def _dry_run(statuses: list[Status], slots: int) -> list[str]:
    return [*lines(statuses, slots), *notes(statuses)]


def _plan(sweep: Sweep) -> list[str]:
    return [
        f"a search of {sweep.search_trials} trials, each with {len(sweep.seeds)} seeds, on {sweep.tasks[0]}:",
        *(f"  {name}: {part}" for name, part in sweep.space.items()),
    ]


def chosen_sweep(options: SweepOptions) -> Sweep:
    """The sweep that the arguments name, with their changes."""
    first = options.sweep[0]
    if len(options.sweep) == 1 and (first.endswith(".toml") or Path(first).is_file()):
        if options.laptop:
            raise FlashSACError("--laptop is for built-in sweeps and tasks; a file names its preset itself.")
        sweep, stride = read_sweep(Path(first)), 1
    elif len(options.sweep) == 1 and ":" not in first:
        sweep, stride = built_in(first, laptop=options.laptop), PAPER_STRIDE
    else:
        preset: PresetName | None = "laptop" if options.laptop else None
        sweep, stride = Sweep("tasks", options.sweep, preset=preset), 1
    settings = dict(assignment(text, "--set") for text in options.set)
    varied = {name: [*values] for name, values in (assignment(text, "--vary", ",") for text in options.vary)}
    return dataclasses.replace(
        sweep,
        seeds=sweep.seeds if options.seeds is None else _seeds(options.seeds, stride),
        preset=options.preset or sweep.preset,
        settings=sweep.settings | settings,
        variants=crossed(sweep.variants, varied),
        space=sweep.space | search_space(options.search),
        search_trials=options.trials or sweep.search_trials,
    )


def _list() -> int:
    width = max(map(len, BUILT_IN))
    for name, make in BUILT_IN.items():
        full, laptop = (make(size) for size in (False, True))
        sizes = f"{len(full)} runs, {len(laptop)} with --laptop"
        print(f"{name:<{width}}  {full.about} ({sizes})")
    return 0


def _seeds(text: str, stride: int) -> tuple[int, ...]:
    try:
        numbers = [whole_number(part) for part in text.split(",") if part]
    except ValueError as error:
        raise UsageError(f"--seeds: {error}") from None
    if "," in text:
        return tuple(numbers)
    return seeds_from_count(numbers[0], stride)


def _launcher(options: SweepOptions) -> Launcher:
    """The launcher that was asked for. Each is imported only then, because it may need an extra."""
    if options.slurm and options.launcher != "slurm":
        raise UsageError("--slurm is for --launcher slurm.")
    if options.ray_address and options.launcher != "ray":
        raise UsageError("--ray-address is for --launcher ray.")
    if options.launcher == "slurm":
        from flashsac.experiments.launchers.slurm import SlurmLauncher

        parameters = dict(_parameter(text) for text in options.slurm)
        return SlurmLauncher(Path(options.out or ".").absolute() / "logs" / "slurm", options.jobs, parameters)
    if options.launcher == "ray":
        from flashsac.experiments.launchers.ray import RayLauncher

        return RayLauncher(options.jobs, options.ray_address)
    return LocalLauncher(options.jobs)


def _parameter(text: str) -> tuple[str, Any]:
    """A parameter of submitit, as a whole number where it is one."""
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--slurm {text}: write name=value, for example --slurm timeout_min=600")
    return name, int(value) if value.isdecimal() else value
