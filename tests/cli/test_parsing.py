"""What is taken off a command line before the rest is parsed."""

from __future__ import annotations

import pytest

from flashsac.cli.options import TrainOptions, whole_number_flags
from flashsac.cli.parsing import leading_path, leading_task, write_out_numbers
from flashsac.config.presets import PRESETS
from flashsac.sims.catalog import suites


@pytest.mark.parametrize(
    ("line", "task", "rest"),
    [
        ("gym:A --no-video", "gym:A", "--no-video"),
        ("--preset laptop gym:A", "gym:A", "--preset laptop"),
        ("--no-video gym:A --seed 1", "gym:A", "--no-video --seed 1"),
        ("--device cuda:1 mine:make", "mine:make", "--device cuda:1"),
        ("--device cuda:1", None, "--device cuda:1"),
        ("--run-dir=a:b", None, "--run-dir=a:b"),
        ("--seed 1 a:b c:d", None, "--seed 1 a:b c:d"),
        ("--help", None, "--help"),
        ("", None, ""),
    ],
)
def test_the_task_is_found_where_it_can_be_nothing_else(line, task, rest):
    assert leading_task(line.split(), suites()) == (task, rest.split())


def test_the_path_may_come_last(tmp_path):
    assert leading_path(["--episodes", "2", str(tmp_path)]) == (str(tmp_path), ["--episodes", "2"])
    assert leading_path([str(tmp_path), "--episodes", "2"]) == (str(tmp_path), ["--episodes", "2"])
    assert leading_path(["--episodes", "2"]) == (None, ["--episodes", "2"])


def test_short_numbers_after_flags_that_take_whole_ones():
    flags = whole_number_flags()
    assert {"--steps", "--eval.every", "--env.num-envs", "--agent.batch-size"} <= flags
    assert not {"--agent.learning-rate", "--run-dir", "--video", "--agent.residual"} & flags
    line = "--steps 1e6 --eval.every=100k --env.num_envs 2.5K --agent.learning-rate 1e-3 --run-dir 10k --seed 1.5e0"
    written = (
        "--steps 1000000 --eval.every=100000 --env.num_envs 2500 --agent.learning-rate 1e-3 --run-dir 10k --seed 1.5e0"
    )
    assert write_out_numbers(line.split(), flags) == written.split()


def test_a_preset_beside_the_settings_changes_none():
    for name, config in PRESETS.items():
        assert TrainOptions.of(config, name).config() == config
