"""How a command reads its arguments: positional ones anywhere, short numbers, and what it says of mistakes."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Literal

import pytest
import tyro

from flashsac.cli.bench import BenchOptions
from flashsac.cli.parsing import Run, SimulatorOptions, parse, whole_number
from flashsac.cli.train import TrainOptions
from flashsac.config.presets import PRESETS
from flashsac.errors import FlashSACError, UsageError
from flashsac.system.limits import AtLeast


@dataclasses.dataclass(frozen=True)
class Options:
    """A command of tests."""

    run: Run
    """Run directory."""
    episodes: Annotated[int, AtLeast(1)] = 10
    """How many."""
    every: int | None = None
    """How often."""
    rate: float = 1.0
    """How fast."""
    video: bool = True
    """Film it."""
    limit: float | None = None
    """How much."""
    size: Literal["small", "large"] = "small"
    """How large."""
    colour: Literal["red", "blue"] | None = None
    """Which colour."""
    env: SimulatorOptions = dataclasses.field(default_factory=SimulatorOptions)


def read(line: str, **wanted: str) -> Options:
    return parse(Options, line.split(), "test", question="which run?", **wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("runs/a", Options("runs/a")),
        ("runs/a --episodes 2", Options("runs/a", episodes=2)),
        ("--episodes 2 runs/a", Options("runs/a", episodes=2)),
        ("--no-video runs/a --every=5", Options("runs/a", video=False, every=5)),
        ("runs/a --env.options", Options("runs/a", env=SimulatorOptions(options=()))),
        ("--env.options a=1 b=2 runs/a", Options("runs/a", env=SimulatorOptions(options=("a=1", "b=2")))),
        ("runs/a --episodes 2 --episodes 3", Options("runs/a", episodes=3)),
        ("runs/a --episodes 1e6 --every=100k --rate 1e-3", Options("runs/a", 1_000_000, 100_000, 1e-3)),
        ("runs/a --every None --limit None --colour None", Options("runs/a")),
        ("runs/a --limit 5 --size large --colour blue", Options("runs/a", limit=5.0, size="large", colour="blue")),
    ],
)
def test_positional_arguments_stand_anywhere(line, expected):
    assert read(line) == expected


@pytest.mark.parametrize(
    ("line", "task", "device"),
    [
        ("gym:A --no-video", "gym:A", "auto"),
        ("--preset laptop gym:A", "gym:A", "auto"),
        ("--no-video gym:A --seed 1", "gym:A", "auto"),
        ("--device cuda:1 mine:make", "mine:make", "cuda:1"),
        ("--env.options a=1 b=2 mine:make", "mine:make", "auto"),
    ],
)
def test_the_task_stands_anywhere(line, task, device):
    default = TrainOptions(task=tyro.MISSING, config=PRESETS["laptop"], preset="laptop")
    options = parse(TrainOptions, line.split(), "train", default=default)
    assert (options.task, options.config.device) == (task, device)


def test_a_preset_beside_the_settings_changes_none():
    for name, config in PRESETS.items():
        default = TrainOptions(task=tyro.MISSING, config=config, preset=name)
        assert parse(TrainOptions, ["gym:A"], "train", default=default) == dataclasses.replace(default, task="gym:A")


@pytest.mark.parametrize("line", ["", "--episodes 5", "--env.engine auto --no-video"])
def test_a_missing_positional_argument_is_asked_for(line):
    with pytest.raises(UsageError, match=r"which run\?"):
        read(line)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("runs/a runs/b", "Unrecognized options: runs/b"),
        ("runs/a --episodes", "Missing value for argument '--episodes'"),
    ],
)
def test_errors_of_usage_are_said_once(line, complaint, capsys):
    with pytest.raises(SystemExit) as stopped:
        read(line)
    assert stopped.value.code == 2
    said = capsys.readouterr()
    assert said.err.count(complaint) == 1
    assert not said.out


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("--episodes 1.5 runs/a", "--episodes: '1.5' is no whole number; write 1000"),
        ("runs/a --every=ten", "--every: 'ten' is no whole number; write 1000"),
        ("runs/a --every None --rate fast", "--rate: 'fast' is no number; write 0.5"),
        ("runs/a --rate 2 --limit=1,5", "--limit: '1,5' is no number; write 0.5"),
        ("runs/a --size larg", "--size: there is no 'larg'. Did you mean large? It is one of small, large"),
        ("--colour bleu", "--colour: there is no 'bleu'. Did you mean blue? It is one of red, blue"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_in_one_line(line, complaint, capsys):
    with pytest.raises(UsageError) as refused:
        read(line)
    assert str(refused.value).startswith(complaint)
    assert "\n" not in str(refused.value)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("runs/a --episode 5", r"no option --episode\. Did you mean --episodes\?"),
        ("--episode=5 runs/a", r"no option --episode\. Did you mean --episodes\?"),
        ("runs/a --engine auto", r"Did you mean --env\.engine\?"),
        ("runs/a --zzzzzzz 5", r"no option --zzzzzzz\. `flashsac test --help` shows all"),
    ],
)
def test_an_unknown_option_is_answered_with_the_one_that_was_meant(line, hint):
    with pytest.raises(UsageError, match=hint):
        read(line)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("--agent.lr", "--agent.learning-rate"),
        ("--lr", "--agent.learning-rate"),
        ("--agent.gamma", "--agent.discount"),
        ("--agent.tau", "--agent.target-rate"),
        ("--agent.batch", "--agent.batch-size"),
        ("--buffer_size", "--replay.capacity"),
        ("--agent.hidden", "--agent.critic-width or --agent.actor-width"),
        ("--agent.seed", "--seed"),
        ("--agent.learning-rte", "--agent.learning-rate"),
        ("--laptop", "--preset laptop"),
    ],
)
def test_the_names_that_other_programs_use_are_understood_as_hints(given, meant):
    default = TrainOptions(task=tyro.MISSING, config=PRESETS["laptop"], preset="laptop")
    with pytest.raises(UsageError, match=rf"Did you mean {re.escape(meant)}\b"):
        parse(TrainOptions, ["gym:A", given, "1"], "train", default=default)


@pytest.mark.parametrize("line", ["runs/a --steps 3", "--steps 3 runs/a"])
def test_unknown_options_may_be_refused_with_a_reason(line):
    with pytest.raises(FlashSACError, match=r"--steps 3.*: they are fixed"):
        read(line, refusal="they are fixed")


def test_a_command_may_have_options_only():
    assert parse(BenchOptions, ["--parts", "act", "update"], "bench") == BenchOptions(parts=("act", "update"))


def test_short_numbers():
    texts = {
        "7": 7,
        "-5": -5,
        "1e6": 10**6,
        "1E+3": 1000,
        "100k": 100_000,
        "2.5M": 2_500_000,
        "0.4K": 400,
        "1_000": 1000,
    }
    assert {text: whole_number(text) for text in texts} == texts
    for text in ("1.5", "1.5e0", "1e-3", "k", "1.0001k", "ten", "1e999"):
        with pytest.raises(ValueError, match=f"'{text}' is no whole number"):
            whole_number(text)
