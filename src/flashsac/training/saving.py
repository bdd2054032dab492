"""Checkpoints of a run: when one may be written, what it holds, and how a run goes on from it."""

from __future__ import annotations

import contextlib
import math
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from safetensors import SafetensorError

from flashsac.errors import CheckpointError, Diverged, RunDirectoryError
from flashsac.policies.policy import Policy
from flashsac.runs.checkpoint import Checkpoint, NotSaved, check_same, fingerprint
from flashsac.runs.disk import free_bytes, rescue_policy
from flashsac.runs.metrics import read_metrics
from flashsac.runs.seal import MALFORMED
from flashsac.sims.base import no_exit
from flashsac.training.session import Session

RETRY_SECONDS, REPEAT_SECONDS = 10.0, 60.0
"""How long the last save waits for room until it tries again, and how often it says so."""
WAITING = "Waiting until it can be written. Ctrl-C ends the run without it."


class Saver:
    """The writer of a session's checkpoints. `saved` is told of each."""

    def __init__(self, session: Session, saved: Callable[[Path], None] = lambda path: None):
        self._session, self._saved = session, saved
        self.stopping = False
        """True once the run was told to stop."""
        self._best_failed = False

    def save(self, *, fatal: bool, with_env: bool = True) -> bool:
        """True if it worked; a failure is a warning, or with `fatal` an error."""
        session = self._session
        self.require_run_directory()
        self.require_finite_networks()
        self.write_best()
        session.log.sync()
        state = {
            "spec": fingerprint(session.env.spec),
            "agent": session.agent.state_dict(),
            "env": session.env.state_dict() if with_env else None,
            "obs": session.obs,
            "episodes": session.episodes.state_dict(),
            **({"env_metrics": session.env_metrics.state_dict()} if session.env_metrics.names else {}),
            "metrics": session.metrics,
            "owed": session.budget.owed,
            "best": session.best.written,
            "seconds": session.clock.seconds,
            "evaluation_due": session.evaluation_due,
            "unwritten_rows": list(session.log.unwritten),
        }
        ends = fatal or not with_env
        try:
            path = session.store.save(session.step, state, session.agent.replay, session.policy().save, last=ends)
        except CheckpointError as error:
            if fatal:
                raise
            session.progress.say(f"warning: {error}")
            return False
        self._saved(path)
        return True

    def save_last(self, stopped: Callable[[], bool]) -> None:
        """Save at the end of a run. Where there is no room it waits, because all since the last checkpoint would be
        lost.

        Ctrl-C ends the wait: `stopped` becomes true, or where it was so already, KeyboardInterrupt is raised."""
        stopped_before, said = stopped(), -math.inf
        given_up = lambda: stopped() and not stopped_before
        problem: CheckpointError | None = None
        try:
            while problem := self._try_to_save_all():
                if time.monotonic() - said >= REPEAT_SECONDS:
                    said = time.monotonic()
                    self._session.progress.say(f"warning: {problem}\n{WAITING}")
                self._wait_for_room(given_up)
                if given_up():
                    raise problem
        except KeyboardInterrupt:
            if problem is None:
                raise
            raise problem from None

    def _wait_for_room(self, given_up: Callable[[], bool]) -> None:
        """Wait a while, or until there is more room than now."""
        folder = self._session.run.path
        free, since = free_bytes(folder), time.monotonic()
        while time.monotonic() - since < RETRY_SECONDS and free_bytes(folder) <= free and not given_up():
            time.sleep(0.5)

    def _try_to_save_all(self) -> CheckpointError | None:
        """Write checkpoint, best policy and metrics; returns what is wrong if one is still missing."""
        session = self._session
        try:
            self.save(fatal=True)
        except NotSaved as error:
            return error
        missing = [
            name
            for name, left in (("metrics.csv", session.log.unwritten), ("the best policy", session.best.unwritten))
            if left
        ]
        if not missing:
            return None
        return NotSaved(
            f"{' and '.join(missing)} could not be written to {session.run.path}, but the checkpoint at step {session.step} was. "
            "Free some space."
        )

    def write_best(self) -> None:
        """Write the best policy unless that is done. What fails is tried again with the next row or checkpoint."""
        session = self._session
        try:
            session.best.write()
        except OSError as error:
            if not self._best_failed:
                session.progress.say(
                    f"warning: the best policy so far could not be written ({error.strerror or error}). It is kept in memory and "
                    "written once it can be; training goes on"
                )
            self._best_failed = True
        else:
            if self._best_failed:
                session.progress.say("the best policy is written now")
            self._best_failed = False

    def save_policy(self, policy: Policy, path: Path) -> None:
        """Write a policy that was evaluated, unless it holds NaN: an episode that NaN ends at once may well have the
        best return."""
        if not all(x.isfinite().all() for x in policy.weights().values()):
            self.require_finite_networks()
        policy.save(path)

    def require_run_directory(self) -> None:
        """End a run whose directory is gone: nothing could be saved. The policy is saved elsewhere."""
        session = self._session
        if not session.folder.gone():
            return
        path = rescue_policy(session.run.path, session.step, session.policy().save)
        saved = f"was saved to {path}" if path else "could not be saved elsewhere"
        raise RunDirectoryError(
            f"{session.run.path} is gone: it was deleted, emptied or moved, or its disk was unmounted. The run ended at step "
            f"{session.step:,}, and its policy {saved}. If the directory comes back, flashsac resume goes on from its last checkpoint."
        )

    @contextlib.contextmanager
    def on_failure(self, doing: str) -> Iterator[None]:
        """Whatever a simulator raises, what was learned until then is kept, and the error says where. The simulator's
        own state is not to be trusted any more."""
        try:
            with no_exit(doing):
                yield
        except BaseException as error:
            # The second Ctrl-C, which ends a run at once, also arrives in the middle of a step.
            if self._session.step and not (self.stopping and isinstance(error, KeyboardInterrupt)):
                saved = self.save(fatal=False, with_env=False)
                error.add_note(self._where_to_go_on() if saved else "No checkpoint could be written at this step.")
            raise

    def _where_to_go_on(self) -> str:
        run = self._session.run
        resume = (
            f"flashsac.resume({str(run.path)!r}, env)"
            if run.task.startswith("custom:")
            else f"flashsac resume {shlex.quote(str(run.path))}"
        )
        return (
            f"A checkpoint of step {self._session.step:,} was saved: {self._session.store.newest}. Correct the environment, then go "
            f"on with: {resume}"
        )

    def require_finite_networks(self) -> None:
        """Refuse to save numbers that are not finite, which would push out a good checkpoint. It waits for the
        device."""
        session = self._session
        if session.agent.learner.finite():
            return
        newest = session.store.newest
        left = (
            f"{newest.name} is whole: flashsac resume {session.run.path} goes on from it"
            if newest
            else "None was saved before"
        )
        raise Diverged(
            f"the networks hold NaN or Inf at step {session.step:,}, so no checkpoint of it is written. {left}. If that does not "
            "help: train anew with a lower --agent.learning-rate, or --precision fp32."
        )


def restore(session: Session) -> list[str]:
    """Go on from the newest whole checkpoint; returns what to tell the user."""
    checkpoint, problems = session.store.load()
    try:
        return [*(f"warning: {problem}" for problem in problems), *_restore(session, checkpoint)]
    except (SafetensorError, *MALFORMED) as error:
        raise CheckpointError(
            f"the checkpoint of step {checkpoint.step:,} does not fit this run ({type(error).__name__}: {error!s:.200}). Delete its "
            f"folder to go on from an older one, or train anew with another --run-dir."
        ) from error


def _restore(session: Session, checkpoint: Checkpoint) -> list[str]:
    notes: list[str] = []
    state, agent = checkpoint.state, session.agent
    check_same(state["spec"], session.env.spec)
    session.store.restore_replay(checkpoint, agent.replay)
    agent.load_state_dict(state["agent"])
    session.budget.owed, session.clock.seconds = state["owed"], state["seconds"]
    notes += _drop_lost_replay(session, checkpoint)
    session.episodes.load_state_dict(state["episodes"])
    if "env_metrics" in state:
        session.env_metrics.load_state_dict(state["env_metrics"])
    session.metrics = state["metrics"]
    session.best.restore(state["best"])
    session.unwritten_rows = state.get("unwritten_rows", [])
    session.step, session.evaluation_due = checkpoint.step, state.get("evaluation_due", False)
    session.watch.begin(agent.replay.invalid, agent.reward_scale.outliers())
    # metrics.csv may be ahead of the checkpoint, and lack rows for which there was no room.
    rows = [*read_metrics(session.run.path / "metrics.csv"), *session.unwritten_rows]
    reached = session.step - session.evaluation_due  # the row of an evaluation that is still due is written again
    session.row = next((row for row in reversed(rows) if row["step"] <= reached), {})
    notes.append(f"resuming {session.run.task} at step {session.step:,} of {session.config.steps:,}")
    if state["env"] and session.env.load_state_dict(state["env"]):
        session.obs = {group: rows.to(session.env.spec.device) for group, rows in state["obs"].items()}
    else:
        notes.append(_begin_new_episodes(session))
    return notes


def _drop_lost_replay(session: Session, checkpoint: Checkpoint) -> list[str]:
    agent = session.agent
    known, gaps = agent.replay.holes, checkpoint.lost_steps(agent.replay.oldest, agent.replay.head)
    lost = [gap for gap in gaps if not any(first <= gap[0] and gap[1] <= stop for first, stop in known)]
    if not lost:
        return []
    for first, stop in lost:
        agent.replay.lose(first, stop)
    session.budget.owed = 0.0  # for transitions that are gone
    again = "" if agent.ready_to_learn else f"; learning goes on when there are {session.config.agent.warmup:,} again"
    left = f"{len(agent.replay):,} transitions are left{again}"
    return [f"warning: part of the replay is damaged and was dropped; {left}"]


def _begin_new_episodes(session: Session) -> str:
    # Another seed than at the start, or the same episodes would be collected again.
    seed = np.random.SeedSequence([session.config.seed, session.step]).generate_state(1)[0]
    session.obs = session.env.reset(int(seed) % 2**31)
    session.agent.restart_episodes(session.obs)
    session.episodes.restart()
    session.env_metrics.restart()
    session.store.save_again_from(session.agent.replay.head - 1)
    why = "could not be brought back exactly" if session.env.spec.can_save_state else "cannot save its state"
    return f"this simulator {why}: episodes begin anew, everything else goes on"
