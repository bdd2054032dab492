"""A search for settings by Optuna. Every trial of it is a variant of a sweep, so its runs are ordinary runs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import filelock

from flashsac.errors import FlashSACError, MissingExtra
from flashsac.experiments.curves import metric_of
from flashsac.experiments.driver import Driver, State, Status, View, look_at
from flashsac.experiments.launchers.base import Launcher
from flashsac.experiments.launchers.process import STOPPED
from flashsac.experiments.settings import Settings, config_of, kind_of
from flashsac.experiments.space import Choice, Space
from flashsac.experiments.sweep import Sweep, Variant
from flashsac.experiments.trial import Trial
from flashsac.runs import layout
from flashsac.runs.metrics_file import read_metrics

JOURNAL = "search.journal"
"""The file in the directory of the runs that holds Optuna's study."""
LOCK = "search.lock"
"""The file beside it that a driver keeps locked while it chooses settings."""
GLANCE = 2.0
"""Seconds to wait for another driver before the user hears of it."""


def check_search(sweep: Sweep) -> None:
    """Refuse a search before it starts: every end of the space must be a valid setting, and scores need one scale."""
    if len(sweep.tasks) != 1 or len(sweep.variants) != 1:
        raise FlashSACError("a search compares settings on one task, with no other variants. Name one task.")
    variant = sweep.variants[0]
    if variant.algorithm is not None:
        raise FlashSACError(
            f"a search chooses settings of FlashSAC, but the variant {variant.name} is the baseline {variant.algorithm}. "
            "Leave its algorithm out, or the search."
        )
    for name, part in sweep.space.items():
        for value in part.ends:
            config_of(sweep.tasks[0], sweep.preset, sweep.settings | sweep.variants[0].settings | {name: value})


def search(sweep: Sweep, out: Path, launcher: Launcher, view: View, *, retries: int) -> int:
    """Run the search to its end, trials of earlier sessions included; returns the exit code."""
    optuna, study = _open_study(out)
    batch = max(1, launcher.slots // len(sweep.seeds))
    code = 0
    while True:
        with _alone(out, view):
            open_trials = _open_trials(optuna, study, sweep, batch)
        if not open_trials:
            break
        variants = {found.number: Variant(f"search-{found.number:04d}", dict(found.params)) for found in open_trials}
        base = dataclasses.replace(sweep, settings=sweep.settings | sweep.variants[0].settings)
        statuses = look_at(base.with_variants(list(variants.values())).trials(out))
        ended = Driver(statuses, launcher, view, retries=retries).run()
        if ended == STOPPED:
            return ended
        code = max(code, ended)
        for number, variant in variants.items():
            value = _score([status for status in statuses if status.trial.variant == variant.name])
            result: dict[str, Any] = {"state": optuna.trial.TrialState.FAIL} if value is None else {"values": value}
            study.tell(number, skip_if_finished=True, **result)
            view.say(
                f"{variant.name}: {'failed' if value is None else f'score {value:.4g}'}  {_spell(variant.settings)}"
            )
    complete = [found for found in study.trials if found.state is optuna.trial.TrialState.COMPLETE]
    if complete:
        view.say(f"best of {len(complete)}: search-{study.best_trial.number:04d}, score {study.best_value:.4g}")
        view.say(f"  {_spell(study.best_params)}")
    return code


@contextlib.contextmanager
def _alone(out: Path, view: View) -> Iterator[None]:
    """No other driver chooses settings meanwhile: Optuna writes a trial and each of its settings one by one."""
    lock = filelock.FileLock(out / LOCK)
    try:
        lock.acquire(timeout=GLANCE)
    except filelock.Timeout:
        view.say("waiting for another driver of this search, which chooses settings now ...")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _open_trials(optuna: Any, study: Any, sweep: Sweep, batch: int) -> list[Any]:
    """The trials to run now, those of earlier sessions and of other drivers first. A trial that lacks settings was
    left by a driver that was killed."""
    state = optuna.trial.TrialState
    running = [found for found in study.trials if found.state is state.RUNNING]
    whole = [found for found in running if found.params.keys() == sweep.space.keys()]
    for found in running:
        if found not in whole:
            study.tell(found.number, state=state.FAIL, skip_if_finished=True)
    while len(whole) < batch and (count := len(study.trials)) < sweep.search_trials:
        study.sampler = optuna.samplers.TPESampler(seed=count)  # two drivers must not draw the same
        whole.append(study.ask(_distributions(optuna, sweep.space)))
    return whole


def _open_study(out: Path) -> tuple[Any, Any]:
    """Optuna, and the study that lies in the directory of the runs."""
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        raise MissingExtra('--search needs Optuna: pip install "flashsac[search]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    out.mkdir(parents=True, exist_ok=True)
    storage = JournalStorage(JournalFileBackend(str(out / JOURNAL)))
    study = optuna.create_study(storage=storage, study_name="search", load_if_exists=True, direction="maximize")
    return optuna, study


def _distributions(optuna: Any, space: Space) -> dict[str, Any]:
    kinds = optuna.distributions
    return {
        name: kinds.CategoricalDistribution(part.values)
        if isinstance(part, Choice)
        else (kinds.IntDistribution if kind_of(name) is int else kinds.FloatDistribution)(
            part.low, part.high, log=part.log
        )
        for name, part in space.items()
    }


def _score(statuses: Sequence[Status]) -> float | None:
    """The mean over seeds of the last evaluation; None if a run has failed or was never evaluated."""
    scores = [last_score(status.trial) for status in statuses if status.state is State.FINISHED]
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if len(known) == len(statuses) else None


def last_score(trial: Trial) -> float | None:
    """The last evaluation of a run, by the number that its task is judged by."""
    column = metric_of(trial.task).column
    values = [row[column] for row in read_metrics(trial.run / layout.METRICS) if column in row]
    return values[-1] if values else None


def _spell(settings: Settings) -> str:
    return " ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in settings.items()
    )
