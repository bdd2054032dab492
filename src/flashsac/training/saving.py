"""Checkpoints of a run: when one may be written, what it holds, and how a run goes on from it."""

from __future__ import annotations

import contextlib
import hashlib
import math
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from flashsac.core.update import Learner
from flashsac.errors import CheckpointError, Diverged, RanksDiffer, RunDirectoryError
from flashsac.policies.policy import Policy
from flashsac.runs import layout
from flashsac.runs.checkpoint import NotSaved, fingerprint
from flashsac.runs.disk import free_bytes, rescue_policy
from flashsac.sims.base import no_exit
from flashsac.training.session import Session

RETRY_SECONDS, REPEAT_SECONDS = 10.0, 60.0
"""How long the last save waits for room until it tries again, and how often it says so."""
WAITING = "Waiting until it can be written. Ctrl-C ends the run without it."


class Saver:
    """The writer of a session's checkpoints. `saved` is told of each."""

    def __init__(self, session: Session, saved: Callable[[Path], None] = lambda path: None):
        self._session, self._saved = session, saved
        self._committed: int | None = None
        """The step that all of several ranks have saved."""
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
            **({"ranks": session.ranks.count} if session.ranks.count > 1 else {}),
        }
        ends = fatal or not with_env
        try:
            self._write_together(
                lambda: session.store.save(session.step, state, session.agent.replay, session.policy().save, last=ends)
            )
        except CheckpointError as error:
            if fatal:
                raise
            session.progress.say(f"warning: {error}")
            return False
        self._saved(session.store.folder / layout.step_folder(session.step))
        return True

    def save_alone(self, *, with_env: bool = True) -> bool:
        """Save after a failure; True if it worked. One of several ranks cannot: the others do not know of it."""
        return self._session.ranks.count == 1 and self.save(fatal=False, with_env=with_env)

    def _write_together(self, write: Callable[[], object]) -> None:
        """Write the checkpoints of all ranks, the first rank's last: those of a step are whole if it has one."""
        ranks = self._session.ranks
        if ranks.count == 1:
            write()
            return
        step, store = self._session.step, self._session.store
        if step == self._committed:  # to write it again could only lose it
            return
        weights = digest(self._session.agent.learner)
        problem = _problem_of(write) if ranks.rank else None
        answers = ranks.share({"weights": weights, "problem": problem})
        if any(answer["weights"] != answers[0]["weights"] for answer in answers):
            raise RanksDiffer(
                f"the weights of the ranks differ at step {self._session.step:,}, so no checkpoint of it is written. Their "
                "processors may compute differently: use machines of one kind, then: flashsac resume RUN"
            )
        problem = next((answer["problem"] for answer in answers if answer["problem"]), None)
        if ranks.rank == 0 and problem is None:
            problem = _problem_of(write)
        problem = ranks.share(problem)[0]
        if problem is None:
            self._committed = step
            return
        if ranks.rank:
            store.discard_after(step - 1)
        raise NotSaved(problem)

    def save_last(self, stopped: Callable[[], bool]) -> None:
        """Save at the end of a run. Where there is no room it waits, because all since the last checkpoint would be
        lost.

        Ctrl-C ends the wait: `stopped` becomes true, or where it was so already, KeyboardInterrupt is raised."""
        stopped_before, said = stopped(), -math.inf
        given_up = lambda: stopped() and not stopped_before
        problem: CheckpointError | None = None
        try:
            while problem := self._agreed(self._try_to_save_all()):
                if time.monotonic() - said >= REPEAT_SECONDS:
                    said = time.monotonic()
                    self._session.progress.say(f"warning: {problem}\n{WAITING}")
                self._wait_for_room(given_up)
                if self._session.ranks.any(given_up()):
                    raise problem
        except KeyboardInterrupt:
            if problem is None:
                raise
            raise problem from None

    def _agreed(self, problem: CheckpointError | None) -> CheckpointError | None:
        """The problem of any rank: then all try again."""
        texts = [text for text in self._session.ranks.share(problem and str(problem)) if text]
        return problem or (NotSaved(texts[0]) if texts else None)

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
                saved = self.save_alone(with_env=False)
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


def _problem_of(write: Callable[[], object]) -> str | None:
    try:
        write()
    except CheckpointError as error:
        return str(error)
    return None


def digest(learner: Learner) -> str:
    """A checksum of all weights and moments."""
    checksum = hashlib.sha256()
    for tensor in torch.utils._pytree.tree_leaves(learner.state_dict()):
        checksum.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return checksum.hexdigest()
