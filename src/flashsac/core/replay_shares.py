"""The replay of other environments: pieces of several replays, cut and joined along the axis of environments.

A piece is what `Replay.export_steps` returns. Runs over several processes need it, when their number changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from flashsac.core.n_step import INVALID, TERMINATED, TRUNCATED

Piece = dict[str, Tensor]
STEPWISE = ("action", "reward", "flags")
OBS, FINAL = "obs.", "final."


class Part(NamedTuple):
    """Some environments of a piece that begins at step `first`."""

    piece: Piece
    first: int
    envs: slice


def join(parts: Sequence[Part], first: int, stop: int, finals: int) -> Piece:
    """Steps [first, stop) of the environments of all parts, as one piece.

    Its final observations are numbered from `finals` on."""
    cut = [(part, slice(first - part.first, stop - part.first)) for part in parts]
    names = [name for name in parts[0].piece if name in STEPWISE or name.startswith(OBS)]
    out = {name: torch.cat([part.piece[name][steps, part.envs] for part, steps in cut], 1) for name in names}
    has_final = ((out["flags"] & (TERMINATED | TRUNCATED)) != 0) & (out["flags"] & INVALID == 0)  # (steps, envs)
    numbers = finals + has_final.flatten().cumsum(0).view(has_final.shape) - 1  # in the order of steps
    out["final_index"] = torch.where(has_final, numbers, 0).to(torch.int32)
    per_step = has_final.sum(1)
    out["finals_before"] = (finals + per_step.cumsum(0) - per_step).to(torch.int32)
    out["final_at"] = torch.arange(finals, finals + int(per_step.sum()))
    old = torch.cat([part.piece["final_index"][steps, part.envs] for part, steps in cut], 1)
    widths = torch.tensor([part.envs.stop - part.envs.start for part in parts])
    source = torch.arange(len(parts)).repeat_interleave(widths).expand_as(old)  # the part of each environment
    old, source = old[has_final].long(), source[has_final]
    for name in (name for name in parts[0].piece if name.startswith(FINAL)):
        rows = parts[0].piece[name]
        joined = rows.new_zeros((len(old), *rows.shape[1:]))
        for index, part in enumerate(parts):
            at = part.piece["final_at"]
            if not len(at):
                continue
            place = old - int(at[0])
            # Those that their ring had overwritten stay zero: the tail of the replay lies after them.
            here = (source == index) & (place >= 0) & (place < len(at))
            joined[here] = part.piece[name][place[here]]
        out[name] = joined
    return out
