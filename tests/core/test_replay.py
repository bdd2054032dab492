"""The ring against a brute-force list of everything that ever happened."""

from __future__ import annotations

import itertools

import pytest
import torch

from flashsac.core.replay import Replay, layout, layout_bytes
from flashsac.training.compile import compiler_for
from flashsac.types import CPU, Step

GAMMA = 0.9


class Recorder:
    """Feeds a Replay with numbered observations and remembers the true episodes."""

    def __init__(self, replay: Replay, num_envs: int):
        self.replay, self.num_envs = replay, num_envs
        self.counter = 0.0
        self.history: list[list[dict]] = [[] for _ in range(num_envs)]
        self.obs = self._fresh(range(num_envs))

    def _fresh(self, envs):
        values = []
        for _ in envs:
            self.counter += 1.0
            values.append(self.counter)
        return torch.tensor(values)

    def step(self, terminated, truncated, valid=None):
        n = self.num_envs
        terminated, truncated = torch.tensor(terminated), torch.tensor(truncated)
        valid = torch.ones(n, dtype=torch.bool) if valid is None else torch.tensor(valid)
        led_to = self._fresh(range(n))
        reset_to = self._fresh(range(n))
        over = terminated | truncated | ~valid
        next_obs = torch.where(over, reset_to, led_to)
        reward, action = led_to * 0.1, torch.stack([led_to, -led_to], 1)
        wrap = lambda x: {"actor": torch.stack([x, x + 0.5], 1)}
        stored_reward = torch.where(valid, reward, float("nan"))
        self.replay.add(
            wrap(self.obs), action, Step(wrap(next_obs), stored_reward, terminated, truncated, wrap(led_to), valid, {})
        )
        for e in range(n):
            self.history[e].append(
                dict(obs=self.obs[e].item(), reward=reward[e].item(), term=bool(terminated[e]), trunc=bool(truncated[e]),
                     valid=bool(valid[e]), led_to=led_to[e].item(), action=action[e].tolist())
            )  # fmt: skip
        self.obs = next_obs

    def expected(self, env, start, n_step):
        """Reward, discount and next observation of a window, the slow way."""
        total, discount = 0.0, 1.0
        for offset in range(n_step):
            step = self.history[env][start + offset]
            if not step["valid"]:
                break
            total += discount * step["reward"]
            discount *= GAMMA
            led_to = step["led_to"]
            if step["term"]:
                return total, 0.0, led_to
            if step["trunc"]:
                break
        return total, discount, led_to


def make(make_spec, num_envs, capacity, n_step):
    replay = Replay(make_spec(num_envs=num_envs, obs=2, action=2), capacity, discount=GAMMA, n_step=n_step)
    return replay, Recorder(replay, num_envs)


def check_window(replay, recorder, env, start):
    batch = replay.gather(torch.tensor([start]), torch.tensor([env]))
    reward, discount, led_to = recorder.expected(env, start, replay.n_step)
    assert batch.obs["actor"][0, 0].item() == recorder.history[env][start]["obs"]
    assert batch.action[0].tolist() == pytest.approx(recorder.history[env][start]["action"])
    assert batch.reward.item() == pytest.approx(reward, rel=1e-5)
    assert batch.discount.item() == pytest.approx(discount, rel=1e-6)
    assert batch.next_obs["actor"][0, 0].item() == led_to
    assert batch.next_obs["actor"][0, 1].item() == led_to + 0.5


@pytest.mark.parametrize("n_step", [1, 2, 3])
def test_every_pattern_of_terminated_and_truncated(make_spec, n_step):
    """All 3^5 ways five steps can end, each followed by plain steps so that the windows are complete."""
    for pattern in itertools.product("-tx", repeat=5):
        replay, recorder = make(make_spec, 1, 100, n_step)
        for kind in [*pattern, *"-" * n_step]:
            recorder.step([kind == "t"], [kind == "x"])
        for start in range(5):
            check_window(replay, recorder, 0, start)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n_step", [1, 3])
def test_wrapping_random_episodes_and_invalid_steps(make_spec, n_step, compiled):
    generator = torch.Generator().manual_seed(n_step)
    num_envs = 3
    replay, recorder = make(make_spec, num_envs, 60, n_step)
    if compiled:
        replay.compile(compiler_for(CPU))
    for index in range(200):
        draw = torch.rand(3, num_envs, generator=generator)
        recorder.step((draw[0] < 0.1).tolist(), (draw[1] < 0.1).tolist(), (draw[2] > 0.05).tolist())
        if index % 20 == 19:
            assert replay.head == index + 1
            for start in range(replay.tail, replay.head - n_step + 1):
                for env in range(num_envs):
                    if recorder.history[env][start]["valid"]:
                        check_window(replay, recorder, env, start)
    assert replay.head - replay.tail == 20, "60 transitions of 3 environments are 20 steps"
    assert replay.invalid == sum(not step["valid"] for env in recorder.history for step in env)


def test_sampling_is_uniform_over_complete_valid_windows(make_spec):
    replay, recorder = make(make_spec, 2, 40, 3)
    for index in range(30):
        recorder.step([False, index % 7 == 0], [index % 5 == 0, False], [index % 6 != 3, True])
    batch = replay.sample(40_000, torch.Generator().manual_seed(0))
    seen = dict(zip(*[x.tolist() for x in torch.unique(batch.obs["actor"][:, 0], return_counts=True)], strict=True))
    possible = [
        recorder.history[env][start]["obs"]
        for start in range(replay.tail, replay.head - 2)
        for env in range(2)
        if recorder.history[env][start]["valid"]
    ]
    assert set(seen) == set(possible)
    share = 40_000 / len(possible)
    assert all(abs(count - share) < 5 * share**0.5 for count in seen.values())


def test_newest_transition_can_be_sampled_at_once(make_spec):
    replay, recorder = make(make_spec, 2, 100, 1)
    recorder.step([False, False], [False, False])
    assert replay.ready
    check_window(replay, recorder, 0, 0)


def test_many_short_episodes_shrink_the_window_instead_of_mixing_final_observations(make_spec):
    replay, recorder = make(make_spec, 1, 10_000, 1)
    for _ in range(3000):
        recorder.step([False], [True])  # an episode end at every step: more than the ring of final observations holds
    assert len(replay) == 1000
    for start in range(replay.tail, replay.head):
        check_window(replay, recorder, 0, start)


def test_cut_closes_open_episodes(make_spec):
    replay, recorder = make(make_spec, 2, 100, 2)
    for _ in range(4):
        recorder.step([False, False], [False, False])
    recorder.step([True, False], [False, False])
    last_obs = recorder.obs.clone()
    restarted = torch.tensor([900.0, 901.0])
    replay.truncate_episodes({"actor": torch.stack([restarted, restarted + 0.5], 1)})
    recorder.history[1][-1]["trunc"] = True  # what cutting means
    assert recorder.history[1][-1]["led_to"] == last_obs[1].item()
    recorder.obs = restarted
    for _ in range(3):
        recorder.step([False, False], [False, False])
    for start in range(6):
        for env in range(2):
            check_window(replay, recorder, env, start)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_storage(make_spec, dtype):
    spec = make_spec(num_envs=1, obs=2, action=2)
    replay = Replay(spec, 10, discount=GAMMA, obs_dtype=dtype)
    recorder = Recorder(replay, 1)
    for _ in range(3):
        recorder.step([False], [False])
    batch = replay.gather(torch.tensor([1]), torch.tensor([0]))
    assert batch.obs["actor"].dtype == torch.float32
    assert replay.obs["actor"].dtype == dtype
    assert batch.obs["actor"][0, 0].item() == pytest.approx(recorder.history[0][1]["obs"], rel=0.01)


def test_bytes_per_transition(make_spec):
    """At most 1.1 x (one observation + one action + 12 bytes)."""
    spec = make_spec(num_envs=8, obs=17, action=6)
    capacity = 1_000_000
    per_transition = layout_bytes(layout(spec, capacity, 1, torch.float32)) / capacity
    assert per_transition <= 1.1 * (4 * 17 + 4 * 6 + 12)


def saved_in_pieces(make_spec, steps):
    """A ring that has wrapped, more than once where its final observations are concerned, and what was saved of it on the way."""
    generator = torch.Generator().manual_seed(5)
    replay, recorder = make(make_spec, 2, 50, 3)
    pieces, saved = [], 0
    for index in range(steps):
        draw = torch.rand(3, 2, generator=generator)
        recorder.step((draw[0] < 0.1).tolist(), (draw[1] < 0.1).tolist(), (draw[2] > 0.03).tolist())
        if index % 9 == 8:
            first = max(saved, replay.tail)
            pieces.append((first, replay.export_steps(first, replay.head)))
            saved = replay.head
    pieces.append((saved, replay.export_steps(saved, replay.head)))
    return replay, recorder, pieces


def restored(make_spec, capacity, replay, pieces):
    other, _ = make(make_spec, 2, capacity, 3)
    for first, data in pieces:
        other.import_steps(first, data)
    other.load_state_dict(replay.state_dict())
    return other


@pytest.mark.parametrize("capacity", [20, 50, 400])
def test_a_ring_of_another_size_takes_up_what_was_saved(make_spec, capacity):
    """A run that is made longer, or given another capacity, must not bootstrap from other robots' final observations."""
    replay, recorder, pieces = saved_in_pieces(make_spec, 400)
    assert replay.finals > replay.num_finals
    other = restored(make_spec, capacity, replay, pieces)
    assert other.tail >= replay.tail
    assert other.head - other.tail >= 9
    for start in range(other.tail, other.head - 2):
        for env in range(2):
            if recorder.history[env][start]["valid"]:
                check_window(other, recorder, env, start)


def test_export_and_import_in_pieces_restore_the_ring(make_spec):
    replay, _, pieces = saved_in_pieces(make_spec, 70)
    other = restored(make_spec, 50, replay, pieces)
    for seed in range(3):
        a = replay.sample(64, torch.Generator().manual_seed(seed))
        b = other.sample(64, torch.Generator().manual_seed(seed))
        assert torch.equal(a.reward, b.reward)
        assert torch.equal(a.discount, b.discount)
        assert torch.equal(a.obs["actor"], b.obs["actor"])
        assert torch.equal(a.next_obs["actor"], b.next_obs["actor"])
