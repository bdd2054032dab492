"""How far the trials of a sweep are, and how long the rest takes, read from their metrics.csv alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from flashsac.experiments.driver import State, Status
from flashsac.experiments.trial import Trial
from flashsac.runs import layout
from flashsac.runs.metrics_file import Row, read_metrics


@dataclasses.dataclass(frozen=True)
class TrialProgress:
    """What the metrics of a trial say."""

    steps: int
    """The length of the run."""
    step: int = 0
    rate: float | None = None
    """Steps in a second of training since learning began."""
    value: float | None = None
    """The newest evaluated return, or that of training episodes if nothing was evaluated."""

    @property
    def seconds_left(self) -> float | None:
        return None if self.rate is None else max(0, self.steps - self.step) / self.rate


def progress_of(trial: Trial) -> TrialProgress:
    """Read how far a trial is."""
    rows = read_metrics(trial.run / layout.METRICS)
    steps = trial.config.steps
    if not rows:
        return TrialProgress(steps)
    values = [row[name] for name in ("eval_return", "return") for row in rows[::-1] if name in row]
    return TrialProgress(steps, int(rows[-1]["step"]), _rate(rows), values[0] if values else None)


def _rate(rows: Sequence[Row]) -> float | None:
    """Steps per second of training, random steps left out: they are fast, and say nothing about the rest."""
    learning = [row for row in rows if row.get("updates", 0) > 0 and "seconds" in row]
    if len(learning) < 2:
        return None
    seconds = learning[-1]["seconds"] - learning[0]["seconds"]
    return (learning[-1]["step"] - learning[0]["step"]) / seconds if seconds > 0 else None


def seconds_left(statuses: Sequence[Status], progress: dict[str, TrialProgress], slots: int) -> float | None:
    """Estimate the time until all trials are done, `slots` at a time; None while no trial has a pace.

    A trial without a pace takes that of trials with the same task and variant, else the same task, else any. The time
    of evaluations and of starts is not counted."""
    open_states = (State.WAITING, State.RUNNING, State.ELSEWHERE)
    left = []
    for status in statuses:
        if status.state not in open_states:
            continue
        own = progress[status.trial.path]
        rate = own.rate or _pace_of_others(status.trial, statuses, progress)
        if rate is None:
            return None
        left.append((own.steps - own.step) / rate)
    return max(sum(left) / slots, max(left)) if left else 0.0


def _pace_of_others(trial: Trial, statuses: Sequence[Status], progress: dict[str, TrialProgress]) -> float | None:
    paces = [(status.trial, rate) for status in statuses if (rate := progress[status.trial.path].rate) is not None]
    alike = [rate for other, rate in paces if (other.task, other.variant) == (trial.task, trial.variant)]
    alike = alike or [rate for other, rate in paces if other.task == trial.task] or [rate for _, rate in paces]
    return sum(alike) / len(alike) if alike else None
