"""Steps that were lost to damage are never read again, and all others are, by brute force."""

from __future__ import annotations

import pytest
import torch

from flashsac.core.replay import Replay
from flashsac.types import EnvSpec, Pixels, Step

ENVS, STACK, HISTORY = 3, 3, 2
POISON = 255
"""A frame of an image that was never written; NaN is that of a number."""


def poisoned(_name, shape, dtype):
    if dtype == torch.float32:
        return torch.full(shape, torch.nan)
    return torch.full(shape, POISON if len(shape) == 4 else 0, dtype=dtype)


class Episodes:
    """The same random episodes for any number of replays. Every observation is another number, shown as an image too."""

    def __init__(self, seed: int):
        self.random, self.now, self.obs = torch.Generator().manual_seed(seed), 0, self._observe(0, 0.0)

    def _observe(self, step: int, more: float) -> dict[str, torch.Tensor]:
        number = torch.arange(ENVS) + step * ENVS + more
        frames = (number * 2 % 251).to(torch.uint8)[:, None, None, None].expand(ENVS, STACK, 1, 1)
        return {"actor": number[:, None].float(), "pixels": frames}

    def step(self, *replays: Replay) -> None:
        self.now += 1
        over, dead, broken = torch.rand(3, ENVS, generator=self.random) < torch.tensor([[0.1], [0.5], [0.03]])
        following = self._observe(self.now, 0.0)
        step = Step(
            following, torch.rand(ENVS, generator=self.random), over & dead, over & ~dead, self._observe(self.now, 0.5), ~broken, {}
        )  # fmt: skip
        action = torch.rand(ENVS, 1, generator=self.random)
        for replay in replays:
            replay.add(self.obs, action, step)
        self.obs = following


def make(history: int, n_step: int, capacity: int, **more) -> Replay:
    pixels = Pixels(1, 1, 1, STACK)
    spec = EnvSpec(ENVS, {"actor": 1}, 1, (-1.0,), (1.0,), None, pixels=pixels, history=history)
    return Replay(spec, capacity, discount=0.9, n_step=n_step, **more)


def check_samples(damaged: Replay, whole: Replay, holes: list[tuple[int, int]]) -> None:
    """Sampled is all that can be told from what is left, and everything is as in the replay that lost nothing."""
    batch = damaged.sample(5_000, torch.Generator().manual_seed(0))
    number = batch.obs["actor"][:, 0].long()
    step, env = number // ENVS, number % ENVS
    for tensor in (batch.action, batch.reward, batch.discount, *batch.obs.values(), *batch.next_obs.values()):
        assert torch.isfinite(tensor.float()).all()
    assert not any((images["pixels"] == POISON).any() for images in (batch.obs, batch.next_obs))
    n, back = whole.n_step, whole.lookback
    starts = range(whole.tail, whole.head - n + 1)
    usable = [start for start in starts if not any(first - 1 <= start < stop + back for first, stop in holes)]
    valid = {(start, e) for start in usable for e in range(ENVS) if not whole.flags[start % whole.slots, e] & 4}
    assert set(zip(step.tolist(), env.tolist(), strict=True)) == valid
    true = whole.gather(step, env)
    for group in batch.obs:
        assert torch.equal(batch.obs[group], true.obs[group]), group
    apart = torch.ones(len(step), dtype=torch.bool)  # windows that the hole does not cut
    for first, stop in holes:
        apart &= (step + n < first) | (step >= stop)
    for found, wanted in ((batch.reward, true.reward), (batch.discount, true.discount)):
        assert torch.equal(found[apart], wanted[apart])
    for group in batch.next_obs:
        assert torch.equal(batch.next_obs[group][apart], true.next_obs[group][apart]), group


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("history", [0, HISTORY])
@pytest.mark.parametrize("lost", [[3], [2, 4], [3, 4], [7], [0, 3], [0]])
def test_a_lost_piece_costs_its_own_steps_only(lost, history, n_step):
    """Pieces of ten steps of a ring of sixty, which goes on until the hole is overwritten."""
    whole, episodes = make(history, n_step, 60 * ENVS), Episodes(seed=n_step)
    pieces = []
    for index in range(80):
        episodes.step(whole)
        if index % 10 == 9:
            pieces.append((index - 9, index + 1, whole.export_steps(index - 9, index + 1)))
    pieces = [piece for piece in pieces if piece[1] > whole.oldest]
    damaged = make(history, n_step, 60 * ENVS, allocate=poisoned)
    holes = []
    for place, (first, stop, data) in enumerate(pieces):
        if place in lost:
            holes.append((first, stop))
        else:
            damaged.import_steps(first, data)
    damaged.load_state_dict(whole.state_dict())
    for hole in holes:
        damaged.lose(*hole)
    before = len(whole)
    assert len(damaged) <= before
    assert 4 * len(damaged) >= before, "the rest is still there"
    check_samples(damaged, whole, holes)

    again = make(history, n_step, 60 * ENVS, allocate=poisoned)  # saved and loaded: the hole is in the state
    for first, stop in [(first, stop) for first, stop, _ in pieces if (first, stop) not in holes]:
        again.import_steps(first, damaged.export_steps(first, stop))
    again.load_state_dict(damaged.state_dict())
    check_samples(again, whole, holes)
    for index in range(90):
        episodes.step(whole, damaged, again)
        if index % 15 == 0:
            for replay in (damaged, again):
                check_samples(replay, whole, holes)
    assert damaged.holes == again.holes == []
    assert len(damaged) == len(whole)


def test_a_replay_without_holes_draws_the_same_numbers():
    whole, episodes = make(0, 1, 60 * ENVS), Episodes(0)
    for _ in range(30):
        episodes.step(whole)
    drawn = torch.randint(30 * ENVS, (64,), generator=torch.Generator().manual_seed(1))
    sampled = whole.sample(64, torch.Generator().manual_seed(1)).obs["actor"][:, 0].long()
    valid = whole.flags[drawn // ENVS, drawn % ENVS] & 4 == 0
    assert torch.equal(sampled[valid], drawn[valid])
