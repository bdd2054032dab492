"""Run an exported policy on a robot. It needs onnxruntime and NumPy, never torch."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from flashsac.deploy.backends import BACKENDS, Backend
from flashsac.deploy.commands.base import Commands
from flashsac.deploy.commands.make import make_commands
from flashsac.deploy.interface import RobotInterface
from flashsac.deploy.loop import BY_HAND, Episode, Loop
from flashsac.deploy.mujoco_robot import World
from flashsac.deploy.observation import Observer
from flashsac.deploy.onnx_policy import OnnxPolicy
from flashsac.deploy.report import Outputs
from flashsac.deploy.safety import Safety, SafetyLimits
from flashsac.errors import FlashSACError
from flashsac.robots.description import Robot
from flashsac.system.files import check_writable
from flashsac.system.limits import AtLeast, Between, check_limits, flag


@dataclasses.dataclass(frozen=True)
class DeployOptions:
    """Run an exported policy at a fixed rate, with every safety limit on, and report how it went."""

    robot: Literal[tuple(BACKENDS)] = "mujoco"  # type: ignore[valid-type]
    """Plain MuJoCo, or a Unitree G1 by its SDK (never run on hardware yet)."""
    command: tuple[float, float, float] | None = None
    """Velocity to follow: forwards, sideways (m/s), turning (rad/s).
    Default: 0.5 0 0 in MuJoCo, zero for a real robot."""
    commands: str | None = None
    """A source of commands that replaces --command: FILE, stdin, udp:PORT or remote. FILE is a CSV or JSON of
    seconds,vx,vy,yaw. With stdin, it takes lines `vx vy yaw` of another process. With udp:PORT, it takes datagrams
    `number vx vy yaw` of a process on this machine; each number must be higher than the last. With remote, it takes the
    sticks of the real robot's remote."""
    keyboard: bool = False
    """Take commands from the keys of this terminal."""
    seconds: Annotated[float, Between(0, 7200, "(]")] = 20.0
    """Length of an episode under the policy."""
    episodes: Annotated[int, AtLeast(1)] = 1
    """Number of episodes (in MuJoCo)."""
    real_time: bool = False
    """Keep to the clock. A real robot, another process that sends commands, and keys always do."""
    stand: Annotated[float | None, Between(0, 60, "[]")] = None
    """Seconds to go to the default pose in before the policy begins (default: 3 on a real robot, 0 in MuJoCo)."""
    noise: Annotated[float, Between(0, 100, "[]")] = 0.0
    """Sensor noise, as a share of the noise that the policy was trained with (in MuJoCo)."""
    seed: Annotated[int, AtLeast(0)] = 0
    """Seed of noise, pushes and first poses."""
    video: str | None = None
    """mp4 of the first episode (in MuJoCo)."""
    report: str | None = None
    """JSON file for the numbers of every episode."""
    log: str | None = None
    """CSV file for every policy step: command, sensors, the policy's targets, and the targets within the limits."""
    describe: bool = False
    """Print what the file says of its policy and robot, and do nothing else."""
    dry_run: bool = False
    """Listen to the real robot and ask the policy, but send nothing: the robot's own controller keeps it."""
    network: str | None = None
    """Network interface of the real robot, for example eth0."""
    world: World = dataclasses.field(default_factory=World)
    safety: SafetyLimits = dataclasses.field(default_factory=SafetyLimits)


def deploy(
    path: str | Path, options: DeployOptions, *, backend: Backend | None = None, commands: Commands | None = None
) -> list[dict[str, Any]]:
    """Run the episodes; returns one row of numbers per episode, fewer than asked for when interrupted.

    `backend` and `commands` replace those that the options name; the commands are closed in the end."""
    check_options(options)
    backend = backend or make_backend(options)
    policy = OnnxPolicy(path)
    robot = policy.robot()
    backend.check(robot)
    with contextlib.ExitStack() as opened:
        commands = opened.enter_context(contextlib.closing(commands or _open_commands(options, backend, robot)))
        # The first call is slow and may fail, so it comes before anything moves.
        action = policy({name: np.zeros(shape, np.float32) for name, shape in robot.shapes().items()})
        if action.shape != (len(robot.joints),):
            raise FlashSACError(
                f"the policy gives {action.shape} actions for {len(robot.joints)} joints. Export it again."
            )
        outputs = opened.enter_context(contextlib.closing(_open_outputs(path, policy, robot, options)))
        if backend.moves_hardware and (first := commands.read(0.0)) and first.ended:
            raise FlashSACError(f"{first.ended}. The robot was not touched.")
        interface = backend.open(robot, options.safety, options.seed, commands.hear_remote)
        opened.callback(interface.close)
        rates = f"policy {robot.policy_hz:g} Hz, motors {robot.motor_hz:g} Hz"
        print(f"{policy.info.task}, step {policy.info.step}: {robot.name} ({options.robot}), {rates}", flush=True)
        if begins := commands.begins_when:
            print(f"{backend.waiting} {begins}", flush=True)
        for number, episode in enumerate(_episodes(policy, backend, interface, commands, options), 1):
            outputs.add(episode, interface.episode_torques())
            if backend.episodes > 1:
                print(f"episode {number} of {backend.episodes}: {episode.stopped or 'to its end'}", flush=True)
        interface.finish()
    return outputs.rows


def _episodes(
    policy: OnnxPolicy, backend: Backend, interface: RobotInterface, commands: Commands, options: DeployOptions
) -> Iterator[Episode]:
    """One episode after the other, until the operator stops one or the source of commands is dead."""
    robot = policy.robot()
    real_time = backend.real or commands.needs_real_time or options.real_time
    for number in range(backend.episodes):
        loop = Loop(
            robot,
            policy,
            interface,
            commands,
            Safety(robot, options.safety),
            observer=Observer(robot, noise=backend.noise, seed=options.seed + number),
            real_time=real_time,
            stand=backend.stand_seconds if options.stand is None else options.stand,
            late=backend.allowed_delay(options.safety),
        )
        interface.start_episode()
        episode = loop.run(options.seconds, damp=1.0 if real_time else 0.0)
        yield episode
        last = commands.read(0.0)
        if episode.stopped == BY_HAND or (last and last.age > options.safety.command_stop):
            return


def exit_code(rows: list[dict[str, Any]]) -> int:
    """Return 0 if every episode came to its end, 130 after Ctrl-C or another signal, else 3."""
    stopped = [row["stopped"] for row in rows if row["stopped"]]
    return 0 if not stopped else 130 if BY_HAND in stopped else 3


def check_options(options: DeployOptions) -> None:
    """Refuse what cannot be done, before anything is opened. No option may be ignored in silence."""
    check_limits(options)
    if options.robot not in BACKENDS:
        raise FlashSACError(f"--robot must be one of {', '.join(BACKENDS)}, not {options.robot!r}.")
    if options.command and not np.isfinite(options.command).all():
        raise FlashSACError("--command takes three numbers: forwards, sideways (m/s), turning (rad/s).")
    if options.video and Path(options.video).suffix != ".mp4":
        raise FlashSACError(f"--video {options.video}: videos are mp4. Name a file that ends so.")
    if len(sources := _changed_flags(options, ("command", "commands", "keyboard"))) > 1:
        raise FlashSACError(f"{' and '.join(sources)}: one source of commands at a time.")
    backend = BACKENDS[options.robot]
    if problem := backend.refused_commands.get(options.commands or ""):
        raise FlashSACError(f"--commands {options.commands}: {problem}")
    others = [name for other in BACKENDS.values() for name in _own_options(other) if name not in _own_options(backend)]
    if foreign := _changed_flags(options, others):
        raise FlashSACError(f"{', '.join(foreign)}: {backend.refusal}")
    for name in ("report", "video", "log"):
        if file := getattr(options, name):
            check_writable(flag(name), Path(file))


def make_backend(options: DeployOptions) -> Backend:
    """The backend of --robot, with the options that it takes."""
    backend = BACKENDS[options.robot]
    return backend(**{name: getattr(options, name) for name in _own_options(backend)})


def _own_options(backend: type[Backend]) -> list[str]:
    return [field.name for field in dataclasses.fields(backend)]  # type: ignore[arg-type]


def _changed_flags(options: Any, names: Iterable[str]) -> list[str]:
    """The flags, among those of these fields, that differ from their defaults."""
    usual, changed = type(options)(), []
    for name in names:
        value = getattr(options, name)
        if dataclasses.is_dataclass(value):
            changed += _changed_flags(value, [field.name for field in dataclasses.fields(value)])
        elif value != getattr(usual, name):
            changed.append(flag(name))
    return changed


def _open_commands(options: DeployOptions, backend: Backend, robot: Robot) -> Commands:
    fixed = options.command or backend.default_command
    if any(not low <= wanted <= high for wanted, (low, high) in zip(fixed, robot.command_range, strict=True)):
        ranges = ", ".join(f"{low:g} to {high:g}" for low, high in robot.command_range)
        print(f"note: commands are cut to what the policy was trained on: {ranges}", flush=True)
    return make_commands(options.commands, fixed, options.keyboard, robot.command_range, backend.moves_hardware)


def _open_outputs(path: str | Path, policy: OnnxPolicy, robot: Robot, options: DeployOptions) -> Outputs:
    info = policy.info
    named = {"policy": str(path), "sha256": info.sha256, "task": info.task, "step": info.step, "version": info.version}
    about = named | {"options": dataclasses.asdict(options)}
    return Outputs(about, [joint.name for joint in robot.joints], report=options.report, log=options.log)
