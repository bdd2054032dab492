"""What a simulator plug-in declares: one `Simulator` record, the suites it brings, their tasks. This module needs no
torch."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flashsac.config.schema import EnvConfig, PresetName

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv
    from flashsac.types import EnvSpec


@dataclasses.dataclass(frozen=True)
class Task:
    """One row of a table of tasks, or a task that only its simulator knows; such a task has no dimensions."""

    suite: str
    name: str
    obs: int | None = None
    critic_obs: int | None = None
    """Width of what only the critic may see."""
    action: int | None = None
    engines: tuple[str, ...] = ()
    """Names of the simulators that have it (default: the one that brings its suite). `choose_simulator` decides among
    them; the order only breaks ties."""
    own_id: str = ""
    """What the simulator itself calls it (default: its name)."""
    random: float | None = None
    """Return of random actions, where the paper gives it."""
    normal: float | None = None
    """What the paper divides scores by; None for tasks that are not in the paper."""
    metric: str = "return"
    """return or success."""
    megabytes: float | None = None
    """Main memory of one environment, measured in EnvPool; None if nobody has measured it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "own_id", self.own_id or self.name)

    @property
    def full_name(self) -> str:
        return f"{self.suite}:{self.name}"


def read_tasks(table: str) -> tuple[Task, ...]:
    """Tasks from CSV text with the columns of our tasks.csv; suite, task, obs and action must be there."""

    def number(text: str | None) -> float | None:
        return float(text) if text else None

    return tuple(
        Task(
            suite=row["suite"],
            name=row["task"],
            obs=int(row["obs"]),
            critic_obs=int(row["critic_obs"]) if row.get("critic_obs") else None,
            action=int(row["action"]),
            engines=tuple(filter(None, row.get("engines", "").split("+"))),
            own_id=row.get("own_id", ""),
            random=number(row.get("random")),
            normal=number(row.get("normal")),
            metric=row.get("metric") or "return",
            megabytes=number(row.get("megabytes")),
        )
        for row in csv.DictReader(table.splitlines())
    )


@dataclasses.dataclass(frozen=True)
class Suite:
    """What the tasks of a suite have in common; the name stands before the colon."""

    name: str
    about: str
    preset: PresetName = "parallel"
    """The paper's preset for it."""
    discount: float = 0.99
    n_step: int | None = None
    """The settings in which the paper leaves its preset."""
    has_more: bool = False
    """True if its simulator has, or can be given, tasks that are in no table."""
    tasks: tuple[Task, ...] = ()
    """The tasks of a plug-in's suite. Those of our own suites are in tasks.csv."""
    images: str = ""
    """The shape of an observation, as `flashsac list` prints it, for a suite that shows images."""
    action_repeat: int = 1
    """How many steps of the environment the paper counts for one transition: every action is done so many times."""
    highest_return: Callable[[Task], float | None] = lambda task: None
    """The theoretical maximum of a task's return, by which scores are normalised where the paper has no reference."""
    annotate_spec: Callable[[EnvSpec, Task], EnvSpec] = lambda spec, task: spec
    """A function that adds what is known of a task to its spec: where the velocity is, how observations look in a
    mirror."""


@dataclasses.dataclass(frozen=True)
class Package:
    """What a simulator needs for a suite."""

    module: str
    install: str
    """The command or instructions that install it."""

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None


def extra(name: str, own_environment: bool = False) -> str:
    """The install line of one of our extras."""
    line = f'pip install "flashsac[{name}]"'
    return f"{line} (in a virtual environment of its own: docs/simulators.md)" if own_environment else line


@dataclasses.dataclass(frozen=True)
class EnvRequest:
    """What every simulator is asked for."""

    num_envs: int
    max_episode_steps: int | None = None
    render: bool = False
    device: str = "cpu"
    """The device of GPU simulators."""
    image_size: int = 84
    frame_stack: int = 3
    with_state: bool = False
    """The state vector beside the images."""
    overlap: bool = True
    """Room to simulate while the learner learns."""
    simulator_options: tuple[str, ...] = ()
    """The simulator's own settings, as name=value."""

    @classmethod
    def of(cls, config: EnvConfig, device: str, *, render: bool = False) -> EnvRequest:
        return cls(
            num_envs=config.num_envs,
            max_episode_steps=config.max_episode_steps,
            render=render,
            device=device,
            image_size=config.image_size,
            frame_stack=config.frame_stack,
            with_state=config.with_state,
            overlap=config.overlap,
            simulator_options=config.options,
        )


MegabytesPerEnv = Callable[[Task, EnvRequest], float]


def model_per_env(**by_suite: float) -> MegabytesPerEnv:
    """The task's own figure, or its suite's, or 20, for simulators that keep a whole model in memory for every
    environment."""

    def megabytes(task: Task, request: EnvRequest) -> float:
        return by_suite.get(task.suite, 20.0) if task.megabytes is None else task.megabytes

    return megabytes


@dataclasses.dataclass(frozen=True)
class Simulator:
    """One simulator. Its module is imported by every command, so it must load the simulator and torch inside `make`
    only."""

    name: str
    """What `--env.engine` calls it."""
    make: Callable[[Task, EnvRequest], VecEnv]
    """Make the environments of one of its tasks."""
    packages: Mapping[str, Package]
    """What must be installed, by the name of the suite; its keys are the suites that it simulates."""
    suites: tuple[Suite, ...] = ()
    """The suites that it brings. Others may simulate their tasks too."""
    distributions: tuple[str, ...] = ()
    """Installed packages whose versions a run records, because they may change a result."""
    megabytes_per_env: MegabytesPerEnv = lambda task, request: 0.0
    """Main memory that each further environment takes; 0 where all share one model, or live on a GPU."""
    takes_options: bool = False
    """True if `make` reads `simulator_options`; otherwise `--env.options` are refused."""
    evaluate_apart: bool = False
    """True if evaluation needs a process of its own: one holds only one environment, or drawing might abort it."""
    preferred_for_one: bool = False
    """True if it is chosen before others for one environment: it resumes exactly, and speed matters less."""
