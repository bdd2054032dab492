"""How a new run starts from another one: from its networks, with or without its replay, or from everything for more
steps."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from flashsac.config.networks import different_networks
from flashsac.config.schema import EnvConfig, TrainConfig
from flashsac.errors import CheckpointError, FlashSACError
from flashsac.runs import layout
from flashsac.runs.checkpoint import Checkpoint, CheckpointStore, fingerprint
from flashsac.runs.directory import read_ancestry, read_config
from flashsac.runs.inherit import parent_settings
from flashsac.runs.manifest import MANIFEST
from flashsac.runs.parent import Contents, Parent
from flashsac.runs.seal import MALFORMED, digest_of
from flashsac.system.limits import flag
from flashsac.training.counters import intervals
from flashsac.training.session import Session

OBSERVATION_SETTINGS = ("image_size", "frame_stack", "with_state", "history", "privileged", "blind")
"""Fields of EnvConfig that change what is observed."""


def find_parent(run: str | Path, contents: Contents) -> Parent:
    """The newest whole checkpoint of a run. Only its files are read: no code of the run is imported, and nothing is
    changed."""
    path = Path(run)
    task, _, grandparent = read_ancestry(path)
    store, problems = CheckpointStore(path, task), []
    for folder in layout.checkpoint_folders(store.folder):
        try:
            checkpoint = store.read(folder, replay=False)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        inherited = grandparent if contents == "everything" else None
        return Parent(
            str(path.resolve()),
            checkpoint.step,
            digest_of(folder / MANIFEST),
            contents,
            _transitions(checkpoint, inherited, contents),
            inherited.policy_collects if inherited else contents != "everything",
        )
    detail = "; ".join(problems) or "it has saved none yet"
    raise CheckpointError(f"{path} has no checkpoint to start from: {detail}. Resume it first, or name another run.")


def _transitions(checkpoint: Checkpoint, inherited: Parent | None, contents: Contents) -> int:
    """The transitions in the new run's replay that are not among its own steps."""
    if contents == "networks and replay":
        replay = checkpoint.state["agent"]["replay"]
        return max(0, replay["head"] - replay["tail"]) * int(checkpoint.state["spec"]["num_envs"])
    return inherited.transitions if inherited else 0


def require_same_networks(config: TrainConfig, run: str | Path) -> None:
    """Raise an error that names the flags in which a run's networks differ from these settings."""
    if different := different_networks(config.agent, parent_settings(run).agent):
        ours, theirs = (" ".join(flags) for flags in zip(*different, strict=True))
        raise FlashSACError(
            f"the networks of {run} do not fit: this run has {ours}, that one {theirs}. Leave these flags out, and the networks are "
            "as there; or train without --from."
        )


def begin_from_parent(session: Session, parent: Parent) -> list[str]:
    """Networks, temperature and statistics of the parent, and its replay where it is wanted; returns what to tell the
    user."""
    store, checkpoint = _open(parent)
    try:
        _require_same_spaces(session, parent, checkpoint)
        session.agent.load_networks(checkpoint.state["agent"])
        # Not the seed of a run that starts afresh: with the parent's seed, the parent's first episodes would be
        # collected again.
        seed = np.random.SeedSequence([session.config.seed, parent.step]).generate_state(1)[0]
        session.obs = session.env.reset(int(seed) % 2**31)
        if parent.contents == "networks and replay":
            store.restore_replay(checkpoint, session.agent.replay)
            session.agent.replay.load_state_dict(checkpoint.state["agent"]["replay"])
            session.agent.restart_episodes(session.obs)
    except (SafetensorError, *MALFORMED) as error:
        raise CheckpointError(
            f"the checkpoint of step {parent.step:,} of {parent.run} does not fit this run ({type(error).__name__}: {error!s:.200}). "
            "Train without --from."
        ) from error
    session.watch.begin(session.agent.replay.invalid, session.agent.reward_scale.outliers())
    session.evaluation_due = bool(intervals(session.config)[1])  # of the policy as it was loaded
    return [f"starting from {parent.run} at step {parent.step:,}: {_what_follows(session, parent)}"]


def _what_follows(session: Session, parent: Parent) -> str:
    taken = "networks, temperature and statistics"
    if parent.contents == "networks and replay":
        return f"{taken}, and {len(session.agent.replay):,} transitions of its replay"
    return f"{taken}. Its policy collects the first {session.config.agent.warmup:,} transitions, then learning begins"


def _open(parent: Parent) -> tuple[CheckpointStore, Checkpoint]:
    """The checkpoint that config.json names, if it is still there and the same."""
    run, again = Path(parent.run), "Begin the run again: flashsac train TASK --from RUN --run-dir ANOTHER"
    if parent.contents == "everything":
        raise CheckpointError(f"this run continued {run}, but its own checkpoints are gone. {again}")
    folder = run / layout.CHECKPOINTS / layout.step_folder(parent.step)
    try:
        same = digest_of(folder / MANIFEST) == parent.sha256
    except OSError:
        same = False
    if not same:
        raise CheckpointError(
            f"this run starts from step {parent.step:,} of {run}, and was stopped before it had copied that checkpoint, which is gone "
            f"or has changed. {again}"
        )
    store = CheckpointStore(run, read_config(run)[0])
    try:
        return store, store.read(folder, replay=parent.contents == "networks and replay")
    except CheckpointError as error:
        hint = ". Without --from-replay the replay is not needed" if parent.transitions else ""
        raise CheckpointError(f"{run} cannot be started from: {error}{hint}.") from error


def _require_same_spaces(session: Session, parent: Parent, checkpoint: Checkpoint) -> None:
    ours, theirs = fingerprint(session.env.spec), dict(checkpoint.state["spec"])
    envs, parents_envs = ours.pop("num_envs"), theirs.pop("num_envs")
    if ours != theirs:
        flags = _different_observation_flags(session.config.env, read_config(parent.run)[1].env)
        hint = f"That run was trained with {flags}: give the same here" if flags else "Take a task that shows the same"
        raise FlashSACError(
            f"the observations or actions of {session.run.task} do not fit the networks of {parent.run}: here they are {ours}, there "
            f"{theirs}. {hint}, or train without --from."
        )
    if parent.contents == "networks and replay" and envs != parents_envs:
        raise FlashSACError(
            f"the replay of {parent.run} is that of {parents_envs:,} environments, this run has {envs:,}. Take --env.num-envs "
            f"{parents_envs}, or leave --from-replay out."
        )


def _different_observation_flags(ours: EnvConfig, theirs: EnvConfig) -> str:
    def spelled(name: str, value: Any) -> str:
        if isinstance(value, bool):
            return flag(name if value else f"no_{name}", "--env.")
        return f"{flag(name, '--env.')} {value}"

    different = [name for name in OBSERVATION_SETTINGS if getattr(ours, name) != getattr(theirs, name)]
    return " ".join(spelled(name, getattr(theirs, name)) for name in different)


def for_more_steps(config: TrainConfig, run: Path, steps: int, run_dir: str | Path | None) -> TrainConfig:
    """The settings of a new run that continues `run` up to `steps` in all."""
    reached = find_parent(run, "everything").step
    if steps <= reached:
        raise FlashSACError(
            f"{run} is at step {reached:,} already, and --steps {steps:,} counts all steps from its beginning. For as many again: "
            f"--steps {reached + steps}"
        )
    return dataclasses.replace(config, steps=steps, run_dir=None if run_dir is None else str(run_dir))
