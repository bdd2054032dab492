"""The packages that simulate: which suites each can do, what must be installed, and how an environment is made."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING

from flashsac.config.schema import EngineName
from flashsac.sims.catalog import Task

if TYPE_CHECKING:
    from flashsac.sims.base import VecEnv


@dataclasses.dataclass(frozen=True)
class Options:
    """What every engine is asked for."""

    num_envs: int
    max_episode_steps: int | None = None
    render: bool = False
    device: str = "cpu"
    """Where GPU simulators run."""
    image_size: int = 84
    frame_stack: int = 3
    with_state: bool = False
    """The state vector beside the images."""
    overlap: bool = True
    """Room to simulate while the learner learns."""
    own: tuple[str, ...] = ()
    """Settings of the simulator's own, as name=value."""


@dataclasses.dataclass(frozen=True)
class Package:
    """What an engine needs for a suite."""

    module: str
    install: str

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None


@dataclasses.dataclass(frozen=True)
class Engine:
    """How environments are made, and with which package, by suite."""

    make: Callable[[Task, Options], VecEnv]
    packages: dict[str, Package]
    evaluate_apart: bool = False
    """True if evaluation needs a process of its own: one holds only one environment, or drawing might abort it."""
    worker_megabytes: float | None = None
    """Where every environment has a process of its own: what one takes, the libraries in it included."""


def _envpool(task: Task, options: Options) -> VecEnv:
    from flashsac.sims.adapters.envpool import EnvPoolVecEnv

    prefix = {"playground": "MuJoCoPlayground/", "myosuite": "MyoSuite/", "metaworld": "MetaWorld/"}
    env_id = prefix.get(task.suite, "") + task.own_id
    if task.suite == "dmc":
        # cartpole-balance_sparse is EnvPool's CartpoleBalanceSparse-v1
        env_id = "".join(part.capitalize() for part in task.name.replace("-", "_").split("_")) + "-v1"
    elif task.suite == "playground":
        env_id += "-v1"
    # Meta-World's own package shows the goal; EnvPool hides it unless asked.
    own = ("partially_observable=False",) if task.suite == "metaworld" else ()
    return EnvPoolVecEnv(
        env_id,
        options.num_envs,
        max_episode_steps=options.max_episode_steps,
        render=options.render,
        own=(*own, *options.own),
    )


def _gymnasium(task: Task, options: Options) -> VecEnv:
    if task.suite == "metaworld":
        return _from("metaworld", "make_metaworld")(task, options)
    from flashsac.sims.adapters.gymnasium import make_gymnasium

    # These register their environments when they are imported.
    package = ENGINES["gymnasium"].packages[task.suite].module if task.suite not in ("gym", "mujoco") else None
    return make_gymnasium(
        task.own_id,
        options.num_envs,
        max_episode_steps=options.max_episode_steps,
        render=options.render,
        package=package,
        frame_stack=options.frame_stack,
    )


def _dm_control(task: Task, options: Options) -> VecEnv:
    from flashsac.sims.adapters.dmc import make_dmc

    domain, name = task.name.split("-")
    return make_dmc(domain, name, options.num_envs, max_episode_steps=options.max_episode_steps, render=options.render)


def _from(module: str, function: str) -> Callable[[Task, Options], VecEnv]:
    """Adapters that need nothing but the task and the options; imported when one is made."""

    def make(task: Task, options: Options) -> VecEnv:
        return getattr(importlib.import_module(f"flashsac.sims.{module}"), function)(task, options)

    return make


def extra(name: str, own_environment: bool = False) -> str:
    line = f'pip install "flashsac[{name}]"'
    return f"{line} (in a virtual environment of its own: docs/simulators.md)" if own_environment else line


ENGINES: dict[EngineName, Engine] = {
    "envpool": Engine(
        _envpool,
        dict.fromkeys(
            ("mujoco", "dmc", "playground", "myosuite", "metaworld", "robotics"), Package("envpool", extra("envpool"))
        ),
    ),
    "gymnasium": Engine(
        _gymnasium,
        {
            "gym": Package("gymnasium", extra("gym")),
            "mujoco": Package("mujoco", extra("mujoco")),
            "robotics": Package("gymnasium_robotics", extra("robotics")),
            "myosuite": Package("myosuite", extra("myosuite", own_environment=True)),
            "metaworld": Package("metaworld", extra("metaworld", own_environment=True)),
        },
    ),
    "dm_control": Engine(_dm_control, {"dmc": Package("dm_control", extra("dmc"))}),
    "jax": Engine(
        _from("playground", "make_playground"),
        {"playground": Package("mujoco_playground", extra("playground", own_environment=True))},
    ),
    "genesis": Engine(
        _from("genesis", "make_genesis"), {"genesis": Package("genesis", extra("genesis", own_environment=True))}
    ),
    "maniskill": Engine(
        _from("maniskill", "make_maniskill"),
        {"maniskill": Package("mani_skill", extra("maniskill", own_environment=True))},
        worker_megabytes=280.0,
    ),
    "mjlab": Engine(_from("mjlab", "make_mjlab"), {"mjlab": Package("mjlab", extra("mjlab", own_environment=True))}),
    "isaaclab": Engine(
        _from("isaaclab", "make_isaaclab"),
        {
            "isaaclab": Package(
                "isaaclab",
                "NVIDIA's own instructions, then pip install -e . in a clone of flashsac, beside it (docs/simulators.md)",
            )
        },
        evaluate_apart=True,
    ),
    "humanoidbench": Engine(
        _from("humanoidbench", "make_humanoidbench"),
        {"humanoidbench": Package("humanoid_bench", "its repository's instructions (docs/simulators.md)")},
    ),
    "pixels": Engine(
        _from("pixels", "make_pixels"),
        {"dmc-vision": Package("dm_control", extra("dmc"))},
        evaluate_apart=True,  # a renderer that aborts during evaluation must not take the run with it
        worker_megabytes=400.0,  # MuJoCo, a renderer and the libraries around them: 360 when measured
    ),
}
