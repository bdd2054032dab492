"""An exported policy on a robot. Needs onnxruntime and NumPy, never torch."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from pathlib import Path
from typing import Any, Literal

import numpy as np

from flashsac.deploy import report
from flashsac.deploy.commands import AfterEnter, make_commands
from flashsac.deploy.interface import RobotInterface
from flashsac.deploy.loop import BY_HAND, Loop
from flashsac.deploy.mujoco_robot import MujocoRobot, World
from flashsac.deploy.observation import Observer, check_blind
from flashsac.deploy.onnx_policy import OnnxPolicy
from flashsac.deploy.report import Torques
from flashsac.deploy.safety import Safety, SafetyLimits
from flashsac.deploy.unitree_remote import Sticks
from flashsac.errors import FlashSACError
from flashsac.system.files import check_writable

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Each of them stops the robot. A lost connection to its terminal is SIGHUP."""
REMOTE = "remote"


@dataclasses.dataclass(frozen=True)
class DeployOptions:
    """Run an exported policy at a fixed rate, with every safety limit on, and report how it went."""

    robot: Literal["mujoco", "unitree"] = "mujoco"
    """Plain MuJoCo, or a Unitree G1 by its SDK (never run on hardware yet)."""
    command: tuple[float, float, float] | None = None
    """Velocity to follow: forwards, sideways (m/s), turning (rad/s) (default: 0.5 0 0 in MuJoCo; zero for a real robot)."""
    commands: str | None = None
    """Instead: a script (CSV or JSON of seconds,vx,vy,yaw), lines `vx vy yaw` of a process: stdin, udp:PORT, or the sticks of the real
    robot's remote: remote."""
    keyboard: bool = False
    """Instead: keys of this terminal."""
    seconds: float = 20.0
    """Length of an episode under the policy."""
    episodes: int = 1
    """How many (in MuJoCo)."""
    real_time: bool = False
    """Keep to the clock; always so with a real robot, a process that sends commands, keys."""
    stand: float | None = None
    """Seconds to go to the default pose in before the policy begins (default: 3 on a real robot, 0 in MuJoCo)."""
    noise: float = 0.0
    """Sensor noise, as a part of what the policy was trained with."""
    seed: int = 0
    """Of noise, pushes and first poses."""
    video: str | None = None
    """mp4 of the first episode (in MuJoCo)."""
    report: str | None = None
    """Where the numbers go, as JSON."""
    log: str | None = None
    """Where every policy step goes, as CSV: command, sensors, the policy's targets and what the limits made of them."""
    describe: bool = False
    """Print what the file says of its policy and robot, and do nothing else."""
    dry_run: bool = False
    """Listen to the real robot and ask the policy, but send nothing: the robot's own controller keeps it."""
    network: str | None = None
    """Network interface of the real robot, for example eth0."""
    world: World = dataclasses.field(default_factory=World)
    safety: SafetyLimits = dataclasses.field(default_factory=SafetyLimits)


def exit_code(rows: list[dict[str, Any]]) -> int:
    """For scripts: 0 if every episode came to its end, 130 after Ctrl-C or another signal, else 3."""
    stopped = [row["stopped"] for row in rows if row["stopped"]]
    return 0 if not stopped else 130 if BY_HAND in stopped else 3


def deploy(path: str | Path, options: DeployOptions) -> list[dict[str, Any]]:
    """One row of numbers for each episode; fewer than asked for when interrupted."""
    _check(options)
    policy = OnnxPolicy(path)
    described = policy.robot()
    real = options.robot == "unitree"
    moves = real and not options.dry_run
    if real:
        check_blind(described)
    fixed = options.command or ((0.0, 0.0, 0.0) if real else (0.5, 0.0, 0.0))
    if any(not low <= wanted <= high for wanted, (low, high) in zip(fixed, described.command_range, strict=True)):
        ranges = ", ".join(f"{low:g} to {high:g}" for low, high in described.command_range)
        print(f"note: commands are cut to what the policy was trained on: {ranges}", flush=True)
    rows: list[dict[str, Any]] = []
    with contextlib.ExitStack() as opened:
        sticks = Sticks(described.command_range) if options.commands == REMOTE else None
        commands = sticks or make_commands(options.commands, fixed, options.keyboard, described.command_range, moves)
        opened.callback(commands.close)
        # The first call is slow, and may fail: before anything moves.
        policy({name: np.zeros(shape, np.float32) for name, shape in described.shapes().items()})
        log = report.Log(Path(options.log), [joint.name for joint in described.joints]) if options.log else None
        if log:
            opened.callback(log.close)
        if moves and (first := commands.read(0.0)) and first.ended:
            raise FlashSACError(f"{first.ended}. The robot was not touched.")
        simulated = None if real else _simulated(described, options)
        interface: RobotInterface = simulated or _unitree(described, options, sticks)
        opened.callback(interface.close)
        watch = _Watch(simulated, Path(options.video) if options.video else None)
        opened.callback(watch.close)
        real_time = real or commands.needs_real_time or options.real_time
        rates = f"policy {described.policy_hz:g} Hz, motors {described.motor_hz:g} Hz"
        print(f"{policy.info.task}, step {policy.info.step}: {described.name} ({options.robot}), {rates}", flush=True)
        told = commands if isinstance(commands, AfterEnter | Sticks) else None
        if told or commands.read(0.0) is None:
            begin = told.begins_when if told else "the first command comes"
            how = "the robot hangs on a gantry in its default pose until"
            if real:
                how = (
                    "the robot stands up and holds its default pose until"
                    if moves
                    else "nothing is sent; the policy is asked when"
                )
            print(f"{how} {begin}", flush=True)
        for number in range(1 if real else options.episodes):
            loop = Loop(
                described,
                policy,
                interface,
                commands,
                Safety(described, options.safety),
                observer=Observer(described, noise=options.noise, seed=options.seed + number),
                real_time=real_time,
                stand=options.stand if options.stand is not None else 3.0 if moves else 0.0,
                late=options.safety.late if real else np.inf,
                ready=told.listen if told else lambda: None,
                begin=watch.begin,
                watch=watch,
                truth=simulated.truth if simulated else None,
            )
            if simulated:
                simulated.reset(held=True)  # nobody's default pose stands by itself for long
            episode = loop.run(options.seconds, damp=1.0 if real_time else 0.0)
            watch.end()
            torques = Torques(np.array(simulated.torques), simulated.torque_limits) if simulated else None
            rows.append(report.summarise(episode, torques))
            # After each, and before anything is printed: nothing is lost that was measured.
            if log:
                log.add(number, episode)
            if options.report:
                report.write(Path(options.report), rows, _about(path, policy, options))
            if options.episodes > 1:
                print(f"episode {number + 1} of {options.episodes}: {episode.stopped or 'to its end'}", flush=True)
            last = commands.read(0.0)
            if episode.stopped == BY_HAND or (last and last.age > options.safety.command_stop):
                break
        watch.draw()
    return rows


def _about(path: str | Path, policy: OnnxPolicy, options: DeployOptions) -> dict[str, Any]:
    info = policy.info
    named = {"policy": str(path), "sha256": info.sha256, "task": info.task, "step": info.step, "version": info.version}
    return named | {"options": dataclasses.asdict(options)}


class _Watch:
    """Looks at a simulated robot after every policy step, and films the first episode."""

    def __init__(self, robot: MujocoRobot | None, video: Path | None):
        self._robot, self._film, self._filming = robot, None, False
        if robot and video:
            from flashsac.deploy.film import Film

            self._film = Film(robot, video)
            self._filming = True

    def begin(self) -> None:
        if self._robot:
            self._robot.release()

    def __call__(self) -> str | None:
        if self._robot is None:
            return None
        if self._film and self._filming and not self._robot.held:
            self._film.frame()
        return "fall: the base is near the ground" if self._robot.fallen else None

    def end(self) -> None:
        """Of the first episode, or another."""
        self._filming = False

    def draw(self) -> None:
        if self._film:
            for name in SIGNALS:  # no robot to damp any more: they end the drawing
                if signal.getsignal(name) in (interrupt, signal.SIG_IGN):
                    signal.signal(name, signal.default_int_handler)
            with contextlib.suppress(KeyboardInterrupt):
                self._film.draw()

    def close(self) -> None:
        if self._film:
            self._film.close()


def _simulated(described: Any, options: DeployOptions) -> MujocoRobot:
    if options.video:
        from flashsac.system.gl import choose_gl_backend

        choose_gl_backend()
    return MujocoRobot(described, options.world, seed=options.seed)


def _unitree(described: Any, options: DeployOptions, sticks: Sticks | None = None) -> RobotInterface:
    from flashsac.deploy.unitree import UnitreeRobot

    return UnitreeRobot(described, options.network, options.safety, dry=options.dry_run, sticks=sticks)


def _check(options: DeployOptions) -> None:
    """Nothing that was asked for may be left out in silence."""
    _check_flags(options)
    for flag, file in (("--report", options.report), ("--video", options.video), ("--log", options.log)):
        if file:
            check_writable(flag, Path(file))


def _check_flags(options: DeployOptions) -> None:
    if options.episodes < 1 or not 0 < options.seconds < np.inf:
        raise FlashSACError("--episodes and --seconds must be above zero.")
    if options.seed < 0:
        raise FlashSACError("--seed must be zero or more.")
    if options.stand is not None and not 0 <= options.stand < np.inf:
        raise FlashSACError("--stand must be zero or more seconds.")
    if options.command and not np.isfinite(options.command).all():
        raise FlashSACError("--command takes three numbers: forwards, sideways (m/s), turning (rad/s).")
    if not 0 <= options.noise < np.inf:
        raise FlashSACError("--noise must be zero or more, as a part of the training's.")
    if options.video and Path(options.video).suffix != ".mp4":
        raise FlashSACError(f"--video {options.video}: videos are mp4. Name a file that ends so.")
    sources = {"--command": options.command, "--commands": options.commands, "--keyboard": options.keyboard or None}
    if len(given := [flag for flag, value in sources.items() if value is not None]) > 1:
        raise FlashSACError(f"{' and '.join(given)}: one source of commands at a time.")
    if options.robot == "mujoco":
        if options.commands == REMOTE:
            raise FlashSACError(
                "--commands remote: a simulated robot has none. Take --keyboard, or add --robot unitree."
            )
        if wrong := [flag for flag in ("network", "dry_run") if getattr(options, flag)]:
            flags = ", ".join(f"--{flag.replace('_', '-')}" for flag in wrong)
            raise FlashSACError(f"{flags}: for a real robot alone. Leave it away, or add --robot unitree.")
        return
    simulated = {"--episodes": options.episodes > 1, "--video": options.video, "--noise": options.noise}
    usual = dataclasses.asdict(World())
    simulated |= {
        f"--{name.replace('_', '-')}": value != usual[name] for name, value in dataclasses.asdict(options.world).items()
    }
    if wrong := [flag for flag, asked in simulated.items() if asked]:
        raise FlashSACError(f"{', '.join(wrong)}: for a simulated robot alone. Leave it away with --robot unitree.")


def interrupt(*_: Any) -> None:
    """As Ctrl-C does, but only the first of them: a second one must not cut the damping short."""
    for name in SIGNALS:
        signal.signal(name, signal.SIG_IGN)
    raise KeyboardInterrupt
