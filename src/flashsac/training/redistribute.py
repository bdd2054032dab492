"""A checkpoint of N ranks for a run of M: environments keep their order, and each rank takes its share of them.

What belongs to an environment goes with it: its transitions and its open return. What belongs to all goes on as it
was: weights, moments, schedules, counters. Random numbers of further ranks begin anew, and so do all episodes.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from flashsac.core.replay import Replay
from flashsac.core.replay_shares import Part, Piece, join
from flashsac.core.sync import whole_statistics
from flashsac.errors import CheckpointError
from flashsac.runs import layout
from flashsac.runs.checkpoint import Checkpoint, CheckpointStore
from flashsac.training.session import Session


@dataclasses.dataclass
class Shard:
    """What one rank wrote, and the environments of it that this rank takes."""

    store: CheckpointStore
    checkpoint: Checkpoint
    columns: slice


def rank_folder(run_dir: Path, rank: int) -> Path:
    """The run directory of a rank. The first one's is that of the run."""
    return run_dir / layout.RANKS / str(rank) if rank else run_dir


def read_shards(session: Session, run_dir: Path, step: int, count: int) -> list[Shard]:
    """Read and verify a checkpoint of `count` ranks; of the replay, only what this rank needs."""
    total, mine = session.num_envs, session.env.spec.num_envs
    if total % count:
        raise CheckpointError(
            f"the checkpoint of step {step:,} was written by {count} ranks, among which {total} environments cannot be shared."
        )
    each, begin = total // count, mine * session.ranks.rank
    shards = []
    for rank in range(count):
        store = CheckpointStore(rank_folder(run_dir, rank), session.run.task)
        low, high = (min(max(x - rank * each, 0), each) for x in (begin, begin + mine))
        checkpoint = store.read(store.folder / layout.step_folder(step), replay=low < high)
        shards.append(Shard(store, checkpoint, slice(low, high)))
    return shards


def fill_replay(shards: list[Shard], replay: Replay) -> list[dict[str, Any]]:
    """Import the steps of this rank's environments; returns the ranges of steps that are whole."""
    finals, ranges = 0, []
    for first, stop, parts in _aligned([shard for shard in shards if shard.columns.start < shard.columns.stop]):
        piece = join(parts, first, stop, finals)
        finals += len(piece["final_at"])
        replay.import_steps(first, piece)
        ranges.append({"first": first, "stop": stop})
    replay.finals = finals
    return ranges


def _aligned(shards: list[Shard]) -> Iterator[tuple[int, int, list[Part]]]:
    """Yield ranges of steps that each shard has in one piece, oldest first."""
    pieces = [sorted(shard.checkpoint.pieces, key=lambda piece: piece["first"]) for shard in shards]
    bounds = sorted({bound for part in pieces for piece in part for bound in (piece["first"], piece["stop"])})
    loaded: list[tuple[str, Piece]] = [("", {})] * len(pieces)
    for first, stop in itertools.pairwise(bounds):
        parts = []
        for index, shard in enumerate(shards):
            # The newest of pieces with the same steps, should there be several.
            for piece in [p for p in pieces[index] if p["first"] <= first and stop <= p["stop"]][-1:]:
                if loaded[index][0] != piece["file"]:
                    loaded[index] = (piece["file"], load_file(shard.store.pieces_folder / piece["file"]))
                parts.append(Part(loaded[index][1], piece["first"], shard.columns))
        if len(parts) == len(pieces):
            yield first, stop, parts


def redistributed(session: Session, shards: list[Shard]) -> dict[str, Any]:
    """The state that this rank goes on from. Its replay was filled before."""
    first = shards[0].checkpoint.state
    agents = [shard.checkpoint.state["agent"] for shard in shards]
    replays = [agent["replay"] for agent in agents]
    fresh, lead = session.agent.state_dict(), session.ranks.rank == 0

    def cut(values: list[Tensor]) -> Tensor:
        return torch.cat([x[shard.columns] for x, shard in zip(values, shards, strict=True)])

    agent = first["agent"] | {
        "noise": first["agent"]["noise"] | {"noise": cut([agent["noise"]["noise"] for agent in agents])},
        "replay": {
            "head": replays[0]["head"],
            "tail": max(replay["tail"] for replay in replays),
            "finals": session.agent.replay.finals,
            "invalid": sum(replay["invalid"] for replay in replays) if lead else 0,
            "lost": max(replay.get("lost", 0) for replay in replays),
            "holes": [hole for replay in replays for hole in replay.get("holes", [])],
            "newest": {group: cut([replay["newest"][group] for replay in replays]) for group in replays[0]["newest"]},
        },
    }
    if scales := [agent["reward_scale"] for agent in agents if agent["reward_scale"]]:
        agent["reward_scale"] = _reward_scale(scales, cut([scale["returns"] for scale in scales]), fresh, lead)
    if not lead:  # the generators of the first rank go on
        agent |= {name: fresh[name] for name in ("acting_rng", "learning_rng")}
    episodes = session.episodes.state_dict()
    if lead:
        saved = [shard.checkpoint.state["episodes"] for shard in shards]
        episodes["finished"] = [pair for part in saved for pair in part["finished"]]
        episodes["count"] = sum(part["count"] for part in saved)
    spec = first["spec"] | {"num_envs": session.env.spec.num_envs}
    state = first | {"agent": agent, "spec": spec, "env": None, "episodes": episodes}
    state.pop("env_metrics", None)
    return state


def _reward_scale(scales: list[dict[str, Any]], returns: Tensor, fresh: dict[str, Any], lead: bool) -> dict[str, Any]:
    """The first rank goes on with the statistics of all, the others with none: together that is the same."""
    guards = [scale["guard"] for scale in scales if "guard" in scale]
    trusted = [
        guard["held"] if guard["age"] > 0 else scale["stats"] for guard, scale in zip(guards, scales, strict=False)
    ]
    stats = whole_statistics(torch.stack(trusted or [scale["stats"] for scale in scales]))
    out = {"returns": returns, "stats": stats if lead else torch.zeros_like(stats)}
    if "guard" in fresh["reward_scale"]:
        rejected = torch.stack([guard["rejected"] for guard in guards]).sum() if guards and lead else torch.zeros(())
        out["guard"] = fresh["reward_scale"]["guard"] | {"rejected": rejected}
    return out
