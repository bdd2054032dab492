"""Images in the replay: the stacks that come out are those that went in, rebuilt from frames stored once."""

from __future__ import annotations

import itertools

import pytest
import torch

from flashsac.core.replay import Replay, layout, layout_bytes
from flashsac.training.compile import compiler_for
from flashsac.types import CPU, EnvSpec, Pixels, Step

GAMMA = 0.9
CHANNELS, SIZE = 2, 3


def make_spec(num_envs: int, stack: int, obs: dict[str, int] | None = None) -> EnvSpec:
    return EnvSpec(
        num_envs, obs or {}, 1, (-1.0,), (1.0,), None, pixels=Pixels(CHANNELS, SIZE, SIZE, stack)
    )  # fmt: skip


class Film:
    """Feeds a Replay with stacks built the way an adapter builds them, and keeps them all."""

    def __init__(self, replay: Replay, spec: EnvSpec):
        assert spec.pixels is not None
        self.replay, self.spec, self.stack = replay, spec, spec.pixels.stack
        self.count = 0
        self.windows = [self._first() for _ in range(spec.num_envs)]
        self.history: list[list[dict]] = [[] for _ in range(spec.num_envs)]

    def _frame(self) -> torch.Tensor:
        self.count += 1
        frame = torch.arange(CHANNELS * SIZE * SIZE) * 7 + self.count * 13
        return (frame % 256).to(torch.uint8).view(CHANNELS, SIZE, SIZE)

    def _first(self) -> list[torch.Tensor]:
        return [self._frame()] * self.stack

    def obs(self) -> dict[str, torch.Tensor]:
        return self._obs(self.windows)

    def _obs(self, windows: list[list[torch.Tensor]]) -> dict[str, torch.Tensor]:
        images = {"pixels": torch.stack([torch.cat(window) for window in windows])}
        vectors = {group: images["pixels"].flatten(1)[:, :width].float() for group, width in self.spec.obs.items()}
        return images | vectors

    def step(self, kinds: str) -> None:
        """One letter an environment: - goes on, t terminates, x is truncated, n is NaN."""
        before = self.obs()
        led_to = [[*window[1:], self._frame()] for window in self.windows]
        self.windows = [
            window if kind == "-" else self._first() for window, kind in zip(led_to, kinds, strict=True)
        ]  # fmt: skip
        n = len(kinds)
        terminated, truncated, invalid = (torch.tensor([kind == letter for kind in kinds]) for letter in "txn")
        reward = torch.arange(n) + self.count * 0.1
        final = self._obs(led_to)
        step = Step(self.obs(), reward, terminated, truncated, final, ~invalid, {})
        self.replay.add(before, torch.zeros(n, 1), step)
        for env in range(n):
            self.history[env].append(
                {"kind": kinds[env], "obs": before["pixels"][env], "next": final["pixels"][env], "reward": reward[env].item()}
            )  # fmt: skip

    def check(self, env: int, start: int) -> None:
        """One window against a slow reading of what happened."""
        batch = self.replay.gather(torch.tensor([start]), torch.tensor([env]))
        total, discount, after = 0.0, 1.0, None
        for step in self.history[env][start : start + self.replay.n_step]:
            if step["kind"] == "n":
                break
            total, discount, after = total + discount * step["reward"], discount * GAMMA, step["next"]
            if step["kind"] != "-":
                discount *= step["kind"] == "x"
                break
        assert torch.equal(batch.obs["pixels"][0], self.history[env][start]["obs"]), (env, start)
        assert torch.equal(batch.next_obs["pixels"][0], after), (env, start)
        assert batch.reward.item() == pytest.approx(total, rel=1e-5)
        assert batch.discount.item() == pytest.approx(discount, rel=1e-6)
        for group, width in self.spec.obs.items():
            assert torch.equal(batch.next_obs[group][0], after.flatten()[:width].float())


def make(num_envs: int, stack: int, capacity: int, n_step: int, obs: dict[str, int] | None = None) -> Film:
    spec = make_spec(num_envs, stack, obs)
    return Film(Replay(spec, capacity, discount=GAMMA, n_step=n_step), spec)


@pytest.mark.parametrize(("stack", "n_step"), [(1, 1), (2, 3), (3, 1), (3, 3)])
def test_every_pattern_of_ends(stack, n_step):
    for pattern in itertools.product("-txn", repeat=4):
        film = make(1, stack, 100, n_step)
        for kind in [*pattern, *"-" * n_step]:
            film.step(kind)
        for start in range(4):
            if pattern[start] != "n":
                film.check(0, start)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_random_episodes_through_a_ring_that_wraps(compiled):
    generator = torch.Generator().manual_seed(0)
    film = make(3, 3, 60, 3, obs={"actor": 2})
    if compiled:
        film.replay.compile(compiler_for(CPU))
    for index in range(200):
        draws = torch.rand(3, generator=generator)
        film.step("".join("t" if d < 0.01 else "x" if d < 0.02 else "n" if d < 0.03 else "-" for d in draws.tolist()))
        if index % 10 == 9:
            for start, env in itertools.product(range(film.replay.tail, film.replay.head - 2), range(3)):
                if film.history[env][start]["kind"] != "n":
                    film.check(env, start)
    assert film.replay.head - film.replay.tail == 20, (
        "60 transitions of 3 environments are 20 steps, earlier frames besides"
    )


def test_many_short_episodes_shorten_the_ring_instead_of_mixing_up_frames():
    film = make(1, 3, 200, 1)
    for index in range(600):
        film.step("t" if index % 3 == 2 else "-")
    assert film.replay.num_finals == 16
    assert 16 * 3 - 3 <= len(film.replay) <= 16 * 3 + 3
    for start in range(film.replay.tail, film.replay.head):
        film.check(0, start)


def test_a_cut_episode_begins_anew():
    film = make(2, 3, 50, 1)
    for _ in range(4):
        film.step("--")
    for env in range(2):
        film.history[env][-1] |= {"kind": "x"}
    film.windows = [film._first() for _ in range(2)]
    film.replay.truncate_episodes(film.obs())
    for _ in range(3):
        film.step("--")
    for start, env in itertools.product(range(7), range(2)):
        film.check(env, start)


def test_saved_pieces_hold_the_frames_before_the_tail():
    film = make(2, 3, 20, 3)
    for index in range(37):
        film.step("-t" if index % 11 == 10 else "--")
    replay = film.replay
    assert replay.oldest == replay.tail - 2
    copy = Replay(film.spec, 20, discount=GAMMA, n_step=3)
    middle = (replay.oldest + replay.head) // 2
    for first, stop in ((replay.oldest, middle), (middle, replay.head)):
        copy.import_steps(first, replay.export_steps(first, stop))
    copy.load_state_dict(replay.state_dict())
    film.replay = copy
    film.step("--")
    for start, env in itertools.product(range(copy.tail, copy.head - 2), range(2)):
        film.check(env, start)


def test_what_is_lost_takes_the_stacks_with_it_that_reach_into_it():
    film = make(1, 3, 50, 1)
    for _ in range(10):
        film.step("-")
    film.replay.lose(0, 6)
    assert film.replay.tail == 8
    film.replay.lose(6, 10)
    assert not film.replay.ready, "even the next two stacks would reach into what is lost"
    assert len(film.replay) == 0
    for _ in range(3):
        film.step("-")
    assert film.replay.ready
    assert len(film.replay) == 1
    film.check(0, 12)


def test_a_frame_takes_little_more_than_its_bytes():
    spec = EnvSpec(1, {}, 6, (-1.0,) * 6, (1.0,) * 6, 500, pixels=Pixels(3, 84, 84, 3))
    assert layout_bytes(layout(spec, 1_000_000, 3, torch.float32)) / 1_000_000 <= 1.05 * 3 * 84 * 84


def test_the_layout_names_everything_that_is_allocated():
    spec, allocated = make_spec(2, 3, obs={"actor": 4, "critic": 5}), {}

    def allocate(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        allocated[name] = (shape, dtype)
        return torch.zeros(shape, dtype=dtype)

    replay = Replay(spec, 100, discount=GAMMA, allocate=allocate)
    on_the_host = {"finals_before": ((replay.slots,), torch.int32)}
    assert layout(spec, 100, 1, torch.float32) == allocated | on_the_host
    vectors = {f"{kind}.{group}" for kind in ("obs", "final") for group in spec.obs}
    assert allocated.keys() == vectors | {"pixels", "action", "reward", "flags", "final_index"}
