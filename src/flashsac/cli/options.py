"""The options of every command but resume and list, as dataclasses; the docstring under a field is its help text."""

from __future__ import annotations

import dataclasses
import typing
from typing import Literal

from flashsac.config.schema import Precision, PresetName, TrainConfig


@dataclasses.dataclass(frozen=True)
class TrainOptions(TrainConfig):
    """A training run, and where its defaults come from."""

    preset: PresetName = "single"
    """Where the defaults shown here come from: parallel (1024 environments, GPU), single (one environment, the paper's CPU setting),
    vision (images), laptop (minutes on a CPU)."""

    @classmethod
    def of(cls, config: TrainConfig, preset: PresetName) -> TrainOptions:
        return cls(**vars(config), preset=preset)

    def config(self) -> TrainConfig:
        return TrainConfig(**{field.name: getattr(self, field.name) for field in dataclasses.fields(TrainConfig)})


@dataclasses.dataclass(frozen=True)
class SimulatorOptions:
    """The simulator, where it shall differ from the training's."""

    engine: str | None = None
    """What simulates it (default: what it was trained with)."""
    options: tuple[str, ...] | None = None
    """Settings of the simulator's own instead of those of the training, as name=value; none after it: the task as it stands."""


@dataclasses.dataclass(frozen=True)
class EvalOptions:
    """Measure a trained policy: deterministic, in environments of its own."""

    episodes: int = 10
    """Episodes to run."""
    seed: int = 12345
    """Seed of the episodes."""
    out: str | None = None
    """CSV file with a row for every episode."""
    task: str | None = None
    """Where to try it: suite:task, or module:function (default: what it was trained on, with the training's --env.options)."""
    checkpoint: str | None = None
    """Which policy of a run: best, last, or a step (default: the best, else the last)."""
    env: SimulatorOptions = dataclasses.field(default_factory=SimulatorOptions)


@dataclasses.dataclass(frozen=True)
class PlayOptions:
    """Watch a trained policy: a window where there is a display, a video otherwise."""

    out: str | None = None
    """Video file (default: RUN/videos/play.mp4)."""
    seconds: float = 15.0
    """Length of the video, in simulated time."""
    seed: int = 12345
    """Seed of the episode."""
    window: bool | None = None
    """Force a window or a video file; by default a window where there is a display."""
    task: str | None = None
    """Where to try it: suite:task, or module:function (default: what it was trained on, with the training's --env.options)."""
    checkpoint: str | None = None
    """Which policy of a run: best, last, or a step (default: the best, else the last)."""
    env: SimulatorOptions = dataclasses.field(default_factory=SimulatorOptions)


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    """Draw evaluation curves over seeds: against steps and against time, as PNG and CSV. NAME=RUN compares groups by name."""

    out: str
    """Directory for the pictures and tables."""
    published: str | None = None
    """CSV of published curves to draw beside them (task, method, env_step, seeds, mean, ci_low, ci_high)."""


BenchPart = Literal["update", "act", "replay", "memory", "simulator", "loop", "start"]


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """Where time and memory go on this machine. Keep it quiet meanwhile; about ten minutes the first time."""

    parts: tuple[BenchPart, ...] = typing.get_args(BenchPart)
    """What to measure."""
    preset: tuple[PresetName, ...] = ("laptop", "single", "parallel")
    """Sizes of networks and batch."""
    precision: tuple[Precision, ...] | None = None
    """Types of the matrix products (default: those that the device does not merely emulate)."""
    seconds: float = 10.0
    """Time for each measurement."""
    compile: Literal["on", "off"] = "on"
    """Compile, as training does."""
    out: str = "bench.csv"
    """Where the figures go."""
    compare: str | None = None
    """Figures of an earlier run, to print ratios to."""


def whole_number_flags(kind: type = TrainConfig, prefix: str = "--") -> set[str]:
    """Flags that take whole numbers."""
    flags: set[str] = set()
    for name, hint in typing.get_type_hints(kind).items():
        flag = prefix + name.replace("_", "-")
        if dataclasses.is_dataclass(hint):
            flags |= whole_number_flags(typing.cast(type, hint), f"{flag}.")
        elif int in (hint, *typing.get_args(hint)):
            flags.add(flag)
    return flags
