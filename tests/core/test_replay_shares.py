"""Replays of some environments each, joined and cut for other environments: every window stays what it was."""

from __future__ import annotations

import pytest
import torch

from flashsac.core.n_step import INVALID
from flashsac.core.replay import Replay
from flashsac.core.replay_shares import Part, join
from flashsac.types import EnvSpec, Step

ENVS, OBS, ACTIONS, STEPS = 6, 3, 2, 40


def spec(envs: int) -> EnvSpec:
    return EnvSpec(envs, {"actor": OBS}, ACTIONS, (-1.0,) * ACTIONS, (1.0,) * ACTIONS, None)


def filled(columns: slice) -> Replay:
    """A replay of these environments; what happens in each does not depend on the others."""
    envs = columns.stop - columns.start
    replay = Replay(spec(envs), STEPS * envs * 2, discount=0.9, n_step=3)
    generator = torch.Generator().manual_seed(0)
    look = lambda: torch.randn(ENVS, OBS, generator=generator)
    obs = look()
    for _ in range(STEPS):
        terminated, truncated, broken = (torch.rand(3, ENVS, generator=generator) < 0.1).unbind()
        next_obs, final, reward = look(), look(), torch.randn(ENVS, generator=generator)
        action = torch.randn(ENVS, ACTIONS, generator=generator)
        cut = lambda x: x[columns]
        step = Step(
            {"actor": cut(next_obs)},
            *map(cut, (reward, terminated, truncated)),
            {"actor": cut(final)},
            cut(~broken),
            {},
        )
        replay.add({"actor": cut(obs)}, cut(action), step)
        obs = next_obs
    replay.truncate_episodes({"actor": cut(look())})
    return replay


def shares(count: int) -> list[slice]:
    each = ENVS // count
    return [slice(rank * each, (rank + 1) * each) for rank in range(count)]


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (1, 2), (2, 1), (6, 1), (2, 2)])
def test_windows_are_the_same_whoever_holds_their_environment(before, after):
    whole, old = filled(slice(0, ENVS)), [filled(columns) for columns in shares(before)]
    each = ENVS // before
    for columns in shares(after):
        new = Replay(spec(columns.stop - columns.start), STEPS * ENVS, discount=0.9, n_step=3)
        finals = 0
        for first, stop in ((0, 15), (15, 16), (16, STEPS)):  # the pieces of a checkpoint
            parts = []
            for rank, replay in enumerate(old):
                low, high = (min(max(x - rank * each, 0), each) for x in (columns.start, columns.stop))
                if low < high:
                    begin = 0 if rank % 2 else first  # pieces need not begin at the same step
                    parts.append(Part(replay.export_steps(begin, stop), begin, slice(low, high)))
            piece = join(parts, first, stop, finals)
            finals += len(piece["final_at"])
            new.import_steps(first, piece)
        newest = whole.state_dict()["newest"]["actor"][columns]
        new.load_state_dict(
            {"head": STEPS, "tail": 0, "finals": finals, "invalid": 0, "newest": {"actor": newest}, "holes": []}
        )
        step = torch.arange(STEPS - 3).repeat_interleave(new.num_envs)
        env = torch.arange(new.num_envs).repeat(STEPS - 3)
        sampled = whole.flags[step, env + columns.start] & INVALID == 0  # no window begins with an invalid step
        step, env = step[sampled], env[sampled]
        ours, theirs = new.gather(step, env), whole.gather(step, env + columns.start)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
