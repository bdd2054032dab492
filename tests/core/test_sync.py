"""Several processes on shares of a batch learn what one learns on the whole batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from flashsac.core.reward_scale import RewardScale
from flashsac.core.sync import whole_moments, whole_statistics
from tests.core.joined import CASES, UPDATES, batches, learner_of, update
from tests.helpers import PATIENCE, ROOT, environment

TOLERANCE = {"float32": 2e-4, "float64": 1e-9}


class Stacked:
    """The view of one rank when all are in this process: what the others would send is known."""

    def __init__(self, values: list[torch.Tensor]):
        self.values, self.rank, self.ranks = values, 0, len(values)

    def gather(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(self.values)

    def mean(self, tensors):
        raise AssertionError("not asked for")


def test_moments_of_all_ranks_equal_those_of_all_rows():
    rows = torch.randn(3, 8, 4, dtype=torch.float64) + torch.tensor([0.0, 100.0, -5.0])[:, None, None]
    each = [torch.stack([part.mean(0), part.var(0, correction=0)]) for part in rows]
    mean, var = whole_moments(Stacked(each), *each[0])
    joined = rows.flatten(0, 1)
    torch.testing.assert_close(mean, joined.mean(0), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(var, joined.var(0, correction=0), rtol=1e-12, atol=1e-12)


def test_reward_statistics_of_all_ranks_equal_those_of_one_with_all_environments():
    generator = torch.Generator().manual_seed(0)
    whole, parts = RewardScale(6, 0.9, 5.0), [RewardScale(2, 0.9, 5.0) for _ in range(3)]
    for _ in range(200):
        reward = torch.randn(6, generator=generator) + torch.arange(6)
        done = torch.rand(6, generator=generator) < 0.05
        valid = torch.rand(6, generator=generator) > 0.02
        whole.observe(reward, done, valid)
        for index, part in enumerate(parts):
            mine = slice(2 * index, 2 * index + 2)
            part.observe(reward[mine], done[mine], valid[mine])
    merged = whole_statistics(torch.stack([part.stats for part in parts]))
    torch.testing.assert_close(merged, whole.stats, rtol=1e-12, atol=1e-12)


def start_ranks(count: int, folder: Path, *arguments: str) -> Path:
    """Run tests/core/joined_update.py in so many processes, which write what they have learned."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    command = [sys.executable, *torchrun, str(ROOT / "tests" / "core" / "joined_update.py"), str(folder), *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module", params=[2, 3])
def learned(request, tmp_path_factory) -> tuple[int, Path]:
    return request.param, start_ranks(request.param, tmp_path_factory.mktemp(f"ranks-{request.param}"))


def assert_same_as_alone(case: str, dtype: str, folder: Path, ranks: int) -> None:
    kind = getattr(torch, dtype)
    alone = learner_of(CASES[case], kind)
    for index, drawn in enumerate(batches(CASES[case], kind, UPDATES)):
        update([alone.update_both, alone.update_critic], index, drawn)
    states = [torch.load(folder / f"{case}-{dtype}-{rank}.pt", weights_only=True) for rank in range(ranks)]
    for other in states[1:]:
        torch.testing.assert_close(other, states[0], rtol=0, atol=0)
    torch.testing.assert_close(states[0], alone.state_dict(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ranks_learn_what_one_process_learns_on_the_joined_batch(case, learned):
    ranks, folder = learned
    for dtype in CASES[case].dtypes:
        assert_same_as_alone(case, dtype, folder, ranks)


@pytest.mark.slow
def test_compiled_ranks_learn_the_same(tmp_path):
    assert_same_as_alone("privileged", "float32", start_ranks(2, tmp_path, "compiled"), 2)
