"""A search for settings by Optuna. Every trial of it is a variant of a sweep, so its runs are ordinary runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


def check_search(sweep: Sweep) -> None:
    """Refuse a search before it starts: every end of the space must be a valid setting, and scores need one scale."""
    if len(sweep.tasks) != 1 or len(sweep.variants) != 1:
        raise FlashSACError("a search compares settings on one task, with no other variants. Name one task.")
    for name, part in sweep.space.items():
        for value in part.ends:
            config_of(sweep.tasks[0], sweep.preset, sweep.settings | sweep.variants[0].settings | {name: value})


def search(sweep: Sweep, out: Path, launcher: Launcher, view: View, *, retries: int) -> int:
    """Run the search to its end, trials of earlier sessions included; returns the exit code."""
    optuna, study = _open_study(out)
    batch = max(1, launcher.slots // len(sweep.seeds))
    code = 0
    while True:
        open_trials = [found for found in study.trials if found.state is optuna.trial.TrialState.RUNNING]
        for found in [found for found in open_trials if found.params.keys() != sweep.space.keys()]:
            study.tell(found.number, state=optuna.trial.TrialState.FAIL, skip_if_finished=True)
            open_trials.remove(found)
        while len(open_trials) < batch and len(study.trials) < sweep.search_trials:
            open_trials.append(study.ask(_distributions(optuna, sweep.space)))
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


def _open_study(out: Path) -> tuple[Any, Any]:
    """Optuna, and the study that lies in the directory of the runs. Its sampler draws anew in every session."""
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
    study.sampler = optuna.samplers.TPESampler(seed=len(study.trials))
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
