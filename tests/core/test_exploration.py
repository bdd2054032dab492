"""Noise repetition: lengths, sharing, and saving."""

from __future__ import annotations

from collections import Counter

import torch

from flashsac.core.exploration import RepeatedNoise


def test_lengths_follow_the_truncated_zeta_distribution():
    noise = RepeatedNoise((1, 1), 16, 2.0, torch.Generator().manual_seed(0))
    lengths, current, last = [], 0, None
    for _ in range(60_000):
        value = noise.next().item()
        if value == last:
            current += 1
        else:
            lengths.append(current)
            current, last = 1, value
    counts = Counter(lengths[1:])
    total = sum(counts.values())
    norm = sum(k**-2 for k in range(1, 17))
    assert max(counts) <= 16
    for k in (1, 2, 3, 4):
        expected = k**-2 / norm
        assert abs(counts[k] / total - expected) < 4 * (expected / total) ** 0.5 + 0.005


def test_all_environments_redraw_together():
    noise = RepeatedNoise((3, 2), 16, 2.0, torch.Generator().manual_seed(0))
    previous = noise.next().clone()
    for _ in range(100):
        now = noise.next().clone()
        changed = (now != previous).any(1)
        assert changed.all() or not changed.any()
        previous = now


def test_noise_is_standard_normal_and_independent_between_environments_and_actions():
    noise = RepeatedNoise((4, 3), 1, 2.0, torch.Generator().manual_seed(0))
    draws = torch.stack([noise.next().flatten() for _ in range(20_000)])
    assert draws.mean(0).abs().max() < 0.04
    assert (torch.cov(draws.T) - torch.eye(12)).abs().max() < 0.05
    assert abs((draws.abs() > 2).float().mean() - 0.0455) < 0.003


def test_off_means_fresh_noise_every_step():
    noise = RepeatedNoise((1, 4), 1, 2.0, torch.Generator().manual_seed(0))
    assert not torch.equal(noise.next().clone(), noise.next())


def test_saved_in_the_middle_of_a_repetition():
    generator = torch.Generator().manual_seed(0)
    noise = RepeatedNoise((2, 2), 16, 2.0, generator)
    while noise.remaining < 3:
        noise.next()
    state, rng = (
        {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in noise.state_dict().items()},
        generator.get_state(),
    )
    expected = [noise.next().clone() for _ in range(20)]
    generator.set_state(rng)
    noise.load_state_dict(state)
    assert all(torch.equal(a, noise.next()) for a in expected)
