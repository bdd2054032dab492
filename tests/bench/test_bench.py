"""`flashsac bench`, short: its counts by hand, its table, its comparison."""

from __future__ import annotations

import pytest
import torch

from flashsac.bench.figures import Row, caveats, read_csv, table, write_csv
from flashsac.bench.measure import Bench, Products
from flashsac.cli.bench import main
from flashsac.config.presets import PRESETS
from flashsac.errors import FlashSACError
from tests.helpers import cli

pytestmark = pytest.mark.slow


def test_operations_of_an_update_by_hand():
    """Two updates, one of them with the actor: no product for rows or weights that nobody uses."""
    agent = PRESETS["laptop"].agent
    batch, wide, narrow, obs, action = agent.batch_size, agent.critic_width, agent.actor_width, 17, 6
    blocks = lambda width: 2 * (width * 4 * width + 4 * width * width)
    actor_body, actor_heads = obs * narrow + blocks(narrow), 2 * narrow * action
    critic_body, critic_head = 2 * ((obs + action) * wide + blocks(wide)), 2 * wide * 101
    # Every weight of a training pass: forward, gradient of the input, gradient of the weight; bodies see 2B rows, heads B.
    actor_training = 3 * (2 * batch * actor_body + batch * actor_heads)
    critic_judging = 2 * batch * (critic_body + critic_head)  # forward, and back to the action
    critic_training = 3 * (2 * batch * critic_body + batch * critic_head)
    target = 2 * batch * critic_body + batch * critic_head
    next_action = batch * (actor_body + actor_heads)
    expected = 2 * (actor_training + critic_judging + 2 * (critic_training + target + next_action))
    measured = Products(Bench(compile=False).learning_cycle("laptop", torch.float32, compiled=False))
    assert measured.operations == expected


def test_bench_command(tmp_path):
    out, again = tmp_path / "bench.csv", tmp_path / "again.csv"
    quick = "--preset laptop --precision fp32 --seconds 0.2 --compile off".split()
    parts = ["--parts", "update", "act", "replay", "memory", "simulator", "loop", "start"]
    printed = cli("bench", *parts, *quick, "--out", str(out)).stdout
    rows = read_csv(out)
    assert {row.part for row in rows} == {"machine", *parts[1:]}
    assert "matrix products alone" in printed
    by_name = {(row.part, row.what): row.value for row in rows}
    assert by_name["update", "update / products"] > 1
    shares = [row.value for row in rows if row.unit == "%" and row.case == "mujoco:HalfCheetah-v4 fp32"]
    assert sum(shares) == pytest.approx(100)
    assert min(shares) >= 0
    second = cli("bench", "--parts", "memory", *quick, "--out", str(again), "--compare", str(out)).stdout
    assert "1.00 of" in second
    assert "note:" not in second, "the same machine, the same figures"
    same = cli("bench", "--compare", str(out), "--out", str(out), check=False)
    assert same.returncode == 1
    assert "would be overwritten" in same.stderr
    assert read_csv(out) == rows


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--seconds", "0"], "above 0"),
        (["--compare", "nowhere.csv"], "no file nowhere.csv"),
        (["--compare", __file__], "holds no figures"),
    ],
)
def test_what_cannot_be_measured_or_compared_is_refused(arguments, problem):
    with pytest.raises(FlashSACError, match=problem):
        main(arguments)


def test_memory_per_transition():
    """At most 1.1 times one observation, one action and twelve bytes, in every preset and type."""
    for row in Bench().memory():
        if row.unit == "x":
            assert row.value <= 1.1, row


def test_what_to_know_before_believing_a_ratio():
    here = Row("machine", "AVX512, 2 threads", "torch 2.13.0", 2.0, "cores")
    figure = Row("act", "1 environments fp32", "act", 0.1, "ms")
    assert caveats([here, figure], None) == []
    assert caveats([here, figure], [here, figure._replace(value=0.2)]) == []
    renamed = figure._replace(case="1 environments")
    other, lone = caveats([here, figure], [here._replace(case="AVX2, 2 threads"), renamed])
    assert "AVX2, 2 threads; torch 2.13.0" in other
    assert "1 figures have no ratio" in lone


def test_table_and_file(tmp_path):
    rows = [Row("update", "laptop fp32", "update", 15.0, "ms"), Row("act", "1 environments", "act", 0.2, "ms")]
    write_csv(rows, tmp_path / "rows.csv")
    assert read_csv(tmp_path / "rows.csv") == rows
    lines = table(rows, [rows[0]._replace(value=30.0)]).splitlines()
    assert "0.50 of 30" in lines[0]
    assert "of" not in lines[1]
