"""How a run goes on from a checkpoint, whatever number of ranks wrote it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
from safetensors import SafetensorError

from flashsac.errors import CheckpointError
from flashsac.runs import layout
from flashsac.runs.checkpoint import Checkpoint, CheckpointStore, check_same
from flashsac.runs.metrics import read_metrics
from flashsac.runs.seal import MALFORMED
from flashsac.training.redistribute import fill_replay, read_shards, redistributed
from flashsac.training.session import Session


def restore(session: Session) -> list[str]:
    """Go on from the newest whole checkpoint; returns what to tell the user."""
    problems: list[str] = []
    written = _written(session.store) if session.ranks.rank == 0 else iter(())
    newest = next(written, None)
    if session.ranks.count > 1 or (newest is not None and newest[1] > 1):
        steps = session.ranks.share([newest, *written] if newest else [])[0]
        checkpoint = _load_together(session, steps)
    else:
        checkpoint, problems = session.store.load()
    try:
        return [*(f"warning: {problem}" for problem in problems), *_restore(session, checkpoint)]
    except (SafetensorError, *MALFORMED) as error:
        raise CheckpointError(
            f"the checkpoint of step {checkpoint.step:,} does not fit this run ({type(error).__name__}: {error!s:.200}). Delete its "
            f"folder to go on from an older one, or train anew with another --run-dir."
        ) from error


def _written(store: CheckpointStore) -> Iterator[tuple[int, int]]:
    """Yield step and number of ranks of the checkpoints that can be read, newest first."""
    for folder in layout.checkpoint_folders(store.folder):
        with contextlib.suppress(CheckpointError):
            yield layout.step_of(folder), int(store.read(folder, replay=False).state.get("ranks", 1))


def _load_together(session: Session, written: Sequence[Sequence[int]]) -> Checkpoint:
    """The newest checkpoint of which every rank has its part."""
    ranks, problems = session.ranks, []
    for step, count in written:
        part, problem = None, None
        try:
            part = _own_part(session, step, count)
        except CheckpointError as error:
            problem = f"rank {ranks.rank}: {error}"
        missing = [text for text in ranks.share(problem) if text]
        if part is not None and not missing:
            if ranks.rank:  # what the first rank has not is no checkpoint
                session.store.discard_after(step)
            return part
        problems += missing
    detail = "; ".join(problems) if problems else "it holds none"
    raise CheckpointError(
        f"no checkpoint in {session.run.path} is whole for all ranks: {detail}. Train anew with another --run-dir."
    )


def _own_part(session: Session, step: int, count: int) -> Checkpoint:
    """This rank's part of a checkpoint, or its share of one that another number of ranks wrote."""
    if count == session.ranks.count:
        return session.store.read(session.store.folder / layout.step_folder(step))
    run_dir = session.run.path.parents[1] if session.ranks.rank else session.run.path
    shards = read_shards(session, run_dir, step, count)
    pieces = fill_replay(shards, session.agent.replay)
    return Checkpoint(step, redistributed(session, shards), pieces, filled=True)


def _restore(session: Session, checkpoint: Checkpoint) -> list[str]:
    notes: list[str] = []
    state, agent = checkpoint.state, session.agent
    check_same(state["spec"], session.env.spec)
    if not checkpoint.filled:
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
    own = [session.ranks.rank] if session.ranks.rank else []
    seed = np.random.SeedSequence([session.config.seed, session.step, *own]).generate_state(1)[0]
    session.obs = session.env.reset(int(seed) % 2**31)
    session.agent.restart_episodes(session.obs)
    session.episodes.restart()
    session.env_metrics.restart()
    session.store.save_again_from(session.agent.replay.head - 1)
    why = "could not be brought back exactly" if session.env.spec.can_save_state else "cannot save its state"
    return f"this simulator {why}: episodes begin anew, everything else goes on"
