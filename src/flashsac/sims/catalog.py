"""What there is to train on: suites, and tasks.csv with the dimensions, scores and engines of every task known by name."""

from __future__ import annotations

import csv
import dataclasses
import difflib
import functools
import importlib.resources
from collections.abc import Iterable
from typing import Any, cast

from flashsac.config.schema import EngineName, PresetName
from flashsac.errors import UnknownTask


@dataclasses.dataclass(frozen=True)
class Task:
    """One row of tasks.csv; or a task that only its simulator knows, without dimensions."""

    suite: str
    name: str
    obs: int | None
    critic_obs: int | None
    """Width of what only the critic may see."""
    action: int | None
    engines: tuple[EngineName, ...]
    """What can simulate it, the preferred one first."""
    own_id: str
    """What the simulator itself calls it."""
    random: float | None
    """Return of random actions, where the paper gives it."""
    normal: float | None
    """What the paper divides scores by; None for tasks that are not in the paper."""
    metric: str
    """return or success."""
    megabytes: float | None
    """Memory one environment takes in EnvPool, measured; None if nobody has."""

    @property
    def full_name(self) -> str:
        return f"{self.suite}:{self.name}"


@dataclasses.dataclass(frozen=True)
class Suite:
    """What the tasks of a suite have in common in the paper."""

    about: str
    preset: PresetName
    discount: float
    n_step: int | None = None
    """Where the paper leaves its preset."""
    has_more: bool = False
    """True if its simulator has, or can be given, tasks that are not in tasks.csv. The engine is called like the suite."""


SUITES: dict[str, Suite] = {
    "isaaclab": Suite("NVIDIA Isaac Lab", "parallel", 0.99, n_step=3, has_more=True),
    "playground": Suite("MuJoCo Playground: humanoids, quadrupeds, hands", "parallel", 0.97),
    "maniskill": Suite("ManiSkill: manipulation", "parallel", 0.9, has_more=True),
    "genesis": Suite("Genesis: our own tasks on its engine", "parallel", 0.95),
    "mujoco": Suite("Gymnasium's MuJoCo tasks", "single", 0.99),
    "dmc": Suite("DeepMind Control Suite, from state", "single", 0.99),
    "humanoidbench": Suite("HumanoidBench: the Unitree H1 without hands", "single", 0.99, has_more=True),
    "myosuite": Suite("MyoSuite: muscles and bones", "single", 0.95),
    "dmc-vision": Suite("DeepMind Control Suite, from pixels", "vision", 0.99),
    "mjlab": Suite("mjlab: Isaac Lab's interface on MuJoCo Warp", "parallel", 0.99, has_more=True),
    "metaworld": Suite("Meta-World: a table-top arm", "single", 0.99),
    "robotics": Suite("Gymnasium-Robotics: Fetch, Shadow and Adroit hands, mazes", "single", 0.99),
    "gym": Suite("any environment registered with Gymnasium", "single", 0.99),
}


@functools.cache
def tasks() -> dict[str, Task]:
    """All tasks known by name."""
    text = importlib.resources.files("flashsac.sims").joinpath("tasks.csv").read_text()

    def number(value: str) -> float | None:
        return float(value) if value else None

    rows = {}
    for row in csv.DictReader(text.splitlines()):
        task = Task(
            suite=row["suite"],
            name=row["task"],
            obs=int(row["obs"]),
            critic_obs=int(row["critic_obs"]) if row["critic_obs"] else None,
            action=int(row["action"]),
            engines=cast("tuple[EngineName, ...]", tuple(row["engines"].split("+"))),
            own_id=row["own_id"] or row["task"],
            random=number(row["random"]),
            normal=number(row["normal"]),
            metric=row["metric"] or "return",
            megabytes=number(row["megabytes"]),
        )
        rows[task.full_name] = task
    return rows


def find_task(task: Any) -> Task | None:
    """A task of tasks.csv, or one that its simulator must know; None for what Gymnasium knows, a user's own, and mistakes."""
    if not isinstance(task, str):
        return None
    if task in tasks():
        return tasks()[task]
    suite, _, name = task.partition(":")
    # Gymnasium imports what stands before a colon in its ids, and a name out of a policy file must not decide that.
    if suite not in SUITES or not SUITES[suite].has_more or not name or ":" in name:
        return None
    return Task(suite, name, None, None, None, (cast("EngineName", suite),), name, None, None, "return", None)


def suite_of(task: str) -> str | None:
    """The suite's name, or None for a user's own module:function."""
    prefix = task.split(":")[0]
    return prefix if prefix in SUITES else None


def check_task(task: str) -> None:
    """Raises UnknownTask for a name that nothing can match; a module of the user's own is not looked for yet."""
    suite, (module, _, function) = suite_of(task), task.partition(":")
    if suite is None and (module.endswith(".py") or "/" in module):
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        raise UnknownTask(f"'{module}' is a file; name it as a module: {dotted}:{function or 'function'}")
    if ":" not in task or (suite not in (None, "gym") and find_task(task) is None):
        raise unknown_task(task)


def unknown_task(task: str, installed: Iterable[str] | None = None) -> UnknownTask:
    """The error for a name that nothing matches, with the nearest that exist: of those in tasks.csv, or of the ids that the simulator
    itself has."""
    suite = suite_of(task)
    names = [name for name in tasks() if suite is None or name.startswith(f"{suite}:")]
    if installed is not None:
        names = [f"{suite}:{own_id}" for own_id in installed]
    near = difflib.get_close_matches(task, names, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    if installed is not None:
        return UnknownTask(
            f"{task}: the {suite} that is installed has no such task.{hint} `flashsac list {suite}` shows those we know of, "
            f"docs/simulators/{suite}.md the version that has them."
        )
    where = f"`flashsac list {suite}` shows them all" if suite else "`flashsac list` shows where tasks come from"
    return UnknownTask(f"there is no task '{task}'.{hint} {where}.")
