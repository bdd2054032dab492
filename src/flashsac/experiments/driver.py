"""The driver of a sweep: what is finished is skipped, what is left is started, what failed is tried again.

All it knows lies in the run directories. Another driver may work on the same sweep, here or on another machine."""

from __future__ import annotations

import dataclasses
import enum
import signal
import time
from collections.abc import Sequence
from typing import Protocol

from flashsac.errors import RunDirectoryError
from flashsac.experiments.launchers.base import Job, Launcher
from flashsac.experiments.launchers.process import BUSY, CANNOT_BEGIN, STOPPED
from flashsac.experiments.trial import (
    Trial,
    check_same_settings,
    is_busy,
    is_finished,
    lacks_diagnostics,
    last_lines,
)
from flashsac.runs import layout
from flashsac.training.interrupts import graceful_stop

POLL = 0.5
"""Seconds between looks at the trials."""
SHOWN = 3
"""How many runs a message names."""
LOOK_ELSEWHERE = 5.0
"""Seconds between looks at trials that another driver has."""
STOPPING = (
    "stopping: the trials that run save a checkpoint first (a trial that is compiling saves when that is done; a minute or "
    "two). Ctrl-C again ends them at once"
)


class State(enum.Enum):
    """The state of a trial. The value is the word that the user sees."""

    WAITING = "waiting"
    RUNNING = "running"
    ELSEWHERE = "elsewhere"
    """Another driver works on it."""
    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    """It has begun, and nobody works on it."""
    NOT_STARTED = "not started"


@dataclasses.dataclass
class Status:
    """A trial, where it stands, and how often it has failed in this session."""

    trial: Trial
    state: State = State.WAITING
    failures: int = 0
    reason: str = ""
    """Why it failed the last time."""
    job: Job | None = None
    told_to_stop: bool = False


class View(Protocol):
    """What the user sees."""

    def say(self, line: str) -> None: ...
    def show(self, statuses: Sequence[Status]) -> None: ...


def look_at(trials: Sequence[Trial]) -> list[Status]:
    """Return where every trial stands, before anything is started. Runs with other settings than theirs are an
    error."""
    problems, statuses = [], []
    for trial in trials:
        try:
            check_same_settings(trial)
        except RunDirectoryError as error:
            problems.append(str(error))
            continue
        statuses.append(Status(trial, state_of(trial)))
    if problems:
        more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
        raise RunDirectoryError("\n  ".join(["this sweep and its runs do not agree:", *problems[:SHOWN], *more]))
    return statuses


def notes(statuses: Sequence[Status]) -> list[str]:
    """Return what the user should know of runs that are there already."""
    found = [status.trial.name for status in statuses if lacks_diagnostics(status.trial)]
    if not found:
        return []
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    first = (
        "note: these runs began without the diagnostics of this sweep, and the settings of a run are fixed. To measure"
    )
    return ["\n  ".join([f"{first} them,", "delete the runs or choose another --out:", *found[:SHOWN], *more])]


def state_of(trial: Trial) -> State:
    """Return the state of a trial that this driver has not started, as its files show it."""
    if is_busy(trial):
        return State.ELSEWHERE
    return State.FINISHED if is_finished(trial) else State.WAITING


def at_rest(trial: Trial) -> State:
    """Return the state of an unfinished trial that nobody works on, as its checkpoints show it."""
    begun = layout.checkpoint_folders(trial.run / layout.CHECKPOINTS)
    return State.INTERRUPTED if begun else State.NOT_STARTED


class Driver:
    """The loop that brings every trial to its end."""

    def __init__(self, statuses: list[Status], launcher: Launcher, view: View, *, retries: int = 1):
        self.statuses = statuses
        self.stopping = False
        self._launcher, self._view, self._retries = launcher, view, retries
        self._looked_elsewhere = time.monotonic()

    def run(self) -> int:
        """Drive all trials; returns the exit code: 1 if some have failed, 130 if it was told to stop."""
        with graceful_stop(self._stop):
            try:
                while self._work():
                    time.sleep(POLL)
            except BaseException:
                for status in self._in(State.RUNNING):
                    if status.job is not None:
                        status.job.kill()
                raise
            finally:
                self._view.show(self.statuses)
        if self.stopping and self._in(State.INTERRUPTED, State.NOT_STARTED, State.ELSEWHERE):
            return STOPPED
        return 1 if self._in(State.FAILED) else 0

    def _work(self) -> bool:
        """One round; True if there is more to do."""
        for status in self._in(State.RUNNING):
            self._collect(status)
        if time.monotonic() - self._looked_elsewhere > LOOK_ELSEWHERE:
            self._looked_elsewhere = time.monotonic()
            for status in self._in(State.ELSEWHERE):
                status.state = state_of(status.trial)
        if self.stopping:
            self._stop_trials()
        for status in self._in(State.WAITING):
            if not self._has_room(status.trial):
                break  # the trials keep their order, so a large one is not passed over for ever
            self._start(status)
        self._view.show(self.statuses)
        waits_for = [State.WAITING, State.RUNNING] + ([] if self.stopping else [State.ELSEWHERE])
        return bool(self._in(*waits_for))

    def _in(self, *states: State) -> list[Status]:
        return [status for status in self.statuses if status.state in states]

    def _has_room(self, trial: Trial) -> bool:
        running = [other.trial for other in self._in(State.RUNNING)]
        return len(running) < self._launcher.slots and self._launcher.fits(trial, running)

    def _start(self, status: Status) -> None:
        if (state := state_of(status.trial)) is not State.WAITING:  # another driver was faster
            status.state = state
            return
        status.job = self._launcher.start(status.trial)
        status.state = State.RUNNING

    def _collect(self, status: Status) -> None:
        """Note how a trial ended, if it has."""
        code = status.job.poll() if status.job is not None else None
        if code is None or (code != BUSY and is_busy(status.trial)):  # its launcher is gone, and it still saves
            return
        status.job = None
        if code == BUSY:
            status.state = State.ELSEWHERE
        elif is_finished(status.trial):
            status.state = State.FINISHED
            self._view.say(f"finished: {status.trial.name}")
        elif self.stopping:
            status.state = at_rest(status.trial)
        else:
            self._failed(status, code)

    def _failed(self, status: Status, code: int) -> None:
        status.failures += 1
        status.reason = _reason(code)
        again = code != CANNOT_BEGIN and status.failures <= self._retries
        status.state = State.WAITING if again else State.FAILED
        lines = [f"{status.trial.name}: {status.reason}{', it is tried again' if again else ''}. Its last lines:"]
        self._view.say("\n  | ".join([*lines, *last_lines(status.trial)]))

    def _stop(self) -> None:
        """Note the first Ctrl-C. The next round does what follows from it: a signal may come at any time."""
        self.stopping = True

    def _stop_trials(self) -> None:
        for status in self._in(State.WAITING):
            status.state = at_rest(status.trial)
        running = [status for status in self._in(State.RUNNING) if not status.told_to_stop]
        if running:
            self._view.say(STOPPING)
        for status in running:
            if status.job is not None:
                status.job.stop()
            status.told_to_stop = True


def _reason(code: int) -> str:
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    reasons = {0: "it ended before its last step", CANNOT_BEGIN: "it cannot begin", STOPPED: "somebody stopped it"}
    return reasons.get(code, f"it ended with code {code}")


def sentence(statuses: Sequence[Status]) -> str:
    """How many trials are in which state."""
    counts = {state: sum(status.state == state for status in statuses) for state in State}
    parts = [f"{count} {state.value}" for state, count in counts.items() if count]
    return f"{len(statuses)} trials: {', '.join(parts)}"
