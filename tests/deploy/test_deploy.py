"""The whole of it: from a file alone, headless, without torch."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from flashsac.deploy import report
from flashsac.deploy.backends import MujocoBackend
from flashsac.deploy.commands.fixed import Fixed
from flashsac.deploy.commands.remote import A, Sticks
from flashsac.deploy.commands.stream import Pipe
from flashsac.deploy.deployment import DeployOptions, deploy, exit_code
from flashsac.deploy.loop import Episode, Loop
from flashsac.deploy.mujoco_robot import MujocoRobot, World, pd_torque
from flashsac.deploy.onnx_policy import OnnxPolicy
from flashsac.deploy.safety import Safety, SafetyLimits
from flashsac.errors import FlashSACError
from flashsac.robots.playground import G1_JOYSTICK as ROBOT
from tests.deploy.fake_robots import SimulatedUnitree, remote
from tests.helpers import PATIENCE, cli, environment

pytestmark = pytest.mark.slow

STIFFNESS = np.array([joint.stiffness for joint in ROBOT.joints])
DAMPING = np.array([joint.damping for joint in ROBOT.joints])
DEFAULT = np.array([joint.default for joint in ROBOT.joints])


def logged(path, *columns: str) -> np.ndarray:
    """Numbers of a log: a row for every policy step."""
    with path.open(newline="") as file:
        return np.array([[float(row[name]) for name in columns] for row in csv.DictReader(file)])


def test_runs_from_the_file_alone_without_torch(g1_file, tmp_path):
    report, video = tmp_path / "report.json", tmp_path / "walk.mp4"
    # Nothing but what docs/deploy.md tells to install, and what that needs itself.
    missing = (
        "torch envpool psutil safetensors gymnasium tensorboard matplotlib scipy onnx onnxscript dm_control".split()
    )
    code = f"""
import sys
class Missing:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from flashsac.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
    log = tmp_path / "new" / "log.csv"
    arguments = f"deploy {g1_file} --seconds 0.3 --episodes 2 --command 0.3 0 -0.1 --noise 1 --pushes --report {report} --log {log}"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments.split(), "--video", str(video)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert "velocity error" in done.stdout
    assert "drawing 8 frames" in done.stdout  # 0.3 s at 25 a second
    assert "episode 2 of 2: to its end" in done.stdout
    written = json.loads(report.read_text())
    assert len(written["episodes"]) == 2
    assert written["options"]["command"] == [0.3, 0.0, -0.1]
    assert written["task"] == "playground:G1JoystickFlatTerrain"
    assert written["sha256"] == OnnxPolicy(g1_file).info.sha256
    assert video.stat().st_size > 1000
    with log.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["episode"], row["seconds"]) for row in rows if row["seconds"] == "0.280"] == [
        ("0", "0.280"),
        ("1", "0.280"),
    ]
    assert len(rows) == 30
    assert float(rows[0]["command.yaw"]) == -0.1
    assert float(rows[0]["quaternion.w"]) == pytest.approx(1.0, abs=0.01)
    assert float(rows[0]["position.left_knee_joint"]) == pytest.approx(0.669, abs=0.021)


def test_a_longer_run_keeps_time(g1_file):
    (row,) = deploy(g1_file, DeployOptions(seconds=1.0, real_time=True, safety=SafetyLimits(tilt=1.5)))
    assert row["seconds"] == pytest.approx(1.0) or "fall" in row["stopped"]
    assert row["late_ms_p50"] < 50.0
    assert row["torque_max"] > 1.0


def test_a_robot_in_its_default_pose_stands_for_a_while():
    robot = MujocoRobot(ROBOT, World(spread=0.0))
    for _ in range(250):
        robot.write(DEFAULT, STIFFNESS, DAMPING)
    assert robot.now() == pytest.approx(0.5)
    assert not robot.fallen
    assert np.abs(robot.read().position - DEFAULT).max() < 0.3


def test_a_gantry_holds_it_until_the_policy_begins(g1_file):
    """Nothing but the default pose falls within three seconds; hung up it does not, and is let go when the policy begins."""
    held = MujocoRobot(ROBOT)
    held.reset(held=True)
    base, joints = held.data.qpos[:7].copy(), held.data.qpos[7:].copy()
    for _ in range(3 * 500):
        held.write(DEFAULT, STIFFNESS, DAMPING)
    np.testing.assert_array_equal(held.data.qpos[:7], base)
    assert np.abs(held.data.qpos[7:] - joints).max() > 1e-4, "its joints move"
    held.begin()
    assert held.torques == [], "of the policy alone"
    for _ in range(5 * 500):
        held.write(DEFAULT, STIFFNESS, DAMPING)
    assert held.fallen

    begun = []

    class Seen(MujocoRobot):
        def begin(self) -> None:
            begun.append(self.truth())
            super().begin()

    class Seeing(MujocoBackend):
        def open(self, robot, safety, seed, hear_remote) -> Seen:
            return Seen(robot, self.world, seed=seed)

    pushed = World(pushes=True, push_every=1.0)
    (row,) = deploy(g1_file, DeployOptions(seconds=0.1, stand=4.0), backend=Seeing(world=pushed))
    assert row["stopped"] is None
    (first,) = begun
    assert first.time == pytest.approx(4.0)
    assert np.abs(first.linear_velocity).max() < 1e-9


def test_a_simulator_that_reset_itself_counts_as_a_fall():
    """MuJoCo answers numbers that it cannot simulate by a reset: the robot would stand again, as if nothing had been."""
    robot = MujocoRobot(ROBOT, World(spread=0.0))

    def policy(obs):
        if robot.now() > 0.1:
            robot.data.qvel[8] = 1e12
        return np.zeros(29)

    loop = Loop(ROBOT, policy, robot, Fixed((0, 0, 0)), Safety(ROBOT), real_time=False)
    episode = loop.run(1.0, damp=0.0)
    assert episode.stopped == "fall: the simulation became unstable and MuJoCo reset it"
    assert episode.seconds < 0.2
    robot.reset()
    assert robot.problem() is None, "the next episode is another"


def test_stops_when_it_tips_over_in_mujoco():
    robot = MujocoRobot(ROBOT, World(spread=0.0))
    robot.data.qvel[4] = 6.0  # thrown forwards
    loop = Loop(ROBOT, lambda obs: np.zeros(29), robot, Fixed((0, 0, 0)), Safety(ROBOT), real_time=False)
    episode = loop.run(5.0, damp=2.0)
    assert "tilt" in episode.stopped
    assert 0.05 < episode.seconds < 2.0
    assert np.abs(robot.data.qvel).max() < 1.0, "it came to rest"


def test_an_unsafe_policy_is_held_back():
    """Full swing of every action at every step: targets move no faster than motors, and within the stops."""
    robot = MujocoRobot(ROBOT, World(spread=0.0))
    wide = dataclasses.replace(ROBOT, action_scale=(10.0,) * 29)
    sign = iter([1, -1] * 1000)
    asked, write = [], robot.write

    def written(target, stiffness, damping):
        felt = robot.truth()
        asked.append(np.abs(pd_torque(target, felt.position, felt.velocity, stiffness, damping)))
        write(target, stiffness, damping)

    robot.write = written
    safety = Safety(ROBOT, SafetyLimits(torque=0.5))
    loop = Loop(wide, lambda obs: np.full(29, next(sign)), robot, Fixed((0, 0, 0)), safety, real_time=False)
    episode = loop.run(0.2)
    limits = [joint.limits for joint in ROBOT.joints]
    targets = np.array([moment.target for moment in episode.moments])
    assert np.all(targets >= [limit.lower for limit in limits])
    assert np.all(targets <= [limit.upper for limit in limits])
    assert np.all(np.abs(np.diff(targets, axis=0)) <= np.array([limit.speed for limit in limits]) / 50 + 1e-9)
    share = np.array(asked) / [limit.torque for limit in limits]
    assert 0.49 < share.max() <= 0.5 + 1e-9
    assert report.summarise(episode)["held_back"] == 1.0


def test_torques_of_every_motor_step_are_reported():
    """A target that jumps by a radian and back within one policy step: what it asks for is over when the step is."""
    robot = MujocoRobot(ROBOT, World(spread=0.0))
    for step in range(10):
        robot.write(DEFAULT + (1.0 if step == 0 else 0.0), STIFFNESS, DAMPING)
    robot.damp()
    row = report.summarise(Episode(), robot.episode_torques())
    assert row["torque_max"] == pytest.approx(75.0)  # 75 Nm/rad in the hips and knees, whose motors have more
    # Shoulders and elbows have 25 Nm, waist roll and pitch 50; all have 75 Nm/rad.
    assert row["saturated"] == pytest.approx((8 + 2) / (10 * 29))
    robot.reset()
    assert robot.torques == []


def test_the_log_knows_better_than_late_sensors(g1_file, tmp_path):
    log, anywhere = tmp_path / "log.csv", SafetyLimits(tilt=1.5)
    deploy(g1_file, DeployOptions(seconds=0.2, world=World(observation_delay=1.0), safety=anywhere, log=str(log)))
    positions = logged(log, *(f"position.{joint.name}" for joint in ROBOT.joints))
    assert len(positions) == 10
    assert np.abs(positions[-1] - positions[0]).max() > 0.01, "all that the policy felt was the first pose"


def test_delays_pushes_and_friction():
    period = 1 / ROBOT.motor_hz
    late = MujocoRobot(ROBOT, World(spread=0.0, action_delay=3 * period, observation_delay=2 * period))
    prompt = MujocoRobot(ROBOT, World(spread=0.0))
    ahead = DEFAULT + 0.1
    moved = {}
    for name, robot in (("late", late), ("prompt", prompt)):
        felt = []
        for step in range(16):
            robot.write(DEFAULT if step == 0 else ahead, STIFFNESS, DAMPING)
            felt.append(robot.read().velocity[18])  # an elbow, light and free
        moved[name] = next(i for i, speed in enumerate(felt) if abs(speed) > 0.5)
    assert moved["late"] - moved["prompt"] == 5

    pushed = MujocoRobot(ROBOT, World(spread=0.0, pushes=True, push_every=0.01, push_speed=2.0), seed=1)
    for _ in range(20):
        pushed.write(DEFAULT, STIFFNESS, DAMPING)
    assert np.abs(pushed.truth().linear_velocity[:2]).max() > 0.2
    slippery = MujocoRobot(ROBOT, World(friction=0.5)).model
    np.testing.assert_allclose(slippery.geom_friction[:, 0], 0.5 * MujocoRobot(ROBOT).model.geom_friction[:, 0])


def test_a_slower_motor_rate_is_simulated_in_small_steps():
    robot = MujocoRobot(dataclasses.replace(ROBOT, motor_hz=200.0))
    robot.write(DEFAULT, STIFFNESS, DAMPING)
    assert robot.now() == pytest.approx(0.005)
    assert robot.model.opt.timestep <= 0.002


def test_bad_requests(g1_file, tmp_path):
    for options, complaint in (
        (DeployOptions(episodes=0), "--episodes must be at least 1, not 0"),
        (DeployOptions(seconds=float("nan")), "--seconds must lie in \\(0, 7200\\], not nan"),
        (DeployOptions(world=World(scene="moon")), "no scene moon"),
        (DeployOptions(robot="unitree"), "does not measure"),
        (DeployOptions(robot="walker"), "--robot must be one of mujoco, unitree, not 'walker'"),
    ):
        with pytest.raises(FlashSACError, match=complaint):
            deploy(g1_file, options)
    with pytest.raises(FlashSACError, match="no MuJoCo model of walker"):
        MujocoRobot(dataclasses.replace(ROBOT, name="walker"))
    bare = tmp_path / "bare.xml"
    bare.write_text("<mujoco/>")
    with pytest.raises(FlashSACError, match="does not fit"):
        MujocoRobot(ROBOT, World(scene=str(bare)))
    assert "which policy?" in cli("deploy", check=False).stderr
    assert OnnxPolicy(g1_file).robot() == ROBOT


def test_a_real_robot_stands_unless_told_to_walk(g1_file, tmp_path, monkeypatch):
    told = []
    ours, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        done = threading.Event()

        def press_enter() -> None:
            while not done.wait(0.1):
                os.write(ours, b"\n")

        threading.Thread(target=press_enter, daemon=True).start()
        for command in (None, (0.2, 0.0, 0.0)):
            options = DeployOptions(
                robot="unitree",
                command=command,
                seconds=0.1,
                stand=0.0,
                log=str(tmp_path / "log.csv"),
                safety=SafetyLimits(tilt=1.5),
            )
            deploy(g1_file, options, backend=SimulatedUnitree())
            told.append(logged(tmp_path / "log.csv", "command.x")[0, 0])
        done.set()
    assert told == [0.0, 0.2]


def test_a_real_robot_follows_its_remote(g1_file, tmp_path, capsys):
    ready, done = threading.Event(), threading.Event()

    class Announced(Sticks):
        def listen(self) -> None:
            super().listen()
            ready.set()

    class WithRemote(SimulatedUnitree):
        def allowed_delay(self, safety) -> float:
            return np.inf  # a busy machine again

        def open(self, robot, safety, seed, hear_remote):
            def tell() -> None:
                ready.wait(60)
                for message in (remote(0), remote(A), *itertools.repeat(remote(0, ly=0.5), 1000)):
                    if done.wait(0.02):
                        return
                    hear_remote(message)

            threading.Thread(target=tell, daemon=True).start()
            return super().open(robot, safety, seed, hear_remote)

    log = tmp_path / "log.csv"
    patient = SafetyLimits(tilt=1.5, command_zero=10.0, command_stop=10.0)  # a busy machine lets threads wait
    options = DeployOptions(robot="unitree", commands="remote", seconds=0.5, stand=0.0, safety=patient, log=str(log))
    try:
        deploy(g1_file, options, backend=WithRemote(), commands=Announced(ROBOT.command_range))
    finally:
        done.set()
    assert "holds its default pose until A is pressed on the remote" in capsys.readouterr().out
    commands = logged(log, "command.x")[:, 0].tolist()
    assert len(commands) == 25
    assert {0.0, 0.5 * ROBOT.command_range[0][1]} >= set(commands)
    assert commands[-1] == 0.5 * ROBOT.command_range[0][1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(stand=-1.0), r"--stand must lie in \[0, 60\], not -1"),
        (dict(stand=1e6), r"--stand must lie in \[0, 60\], not 1e\+06"),
        (dict(seconds=1e9), r"--seconds must lie in \(0, 7200\], not 1e\+09"),
        (dict(command=(np.nan, 0.0, 0.0)), "--command takes three numbers"),
        (dict(noise=-1.0), r"--noise must lie in \[0, 100\], not -1"),
        (dict(video="walk.xyz"), "videos are mp4"),
        (dict(report="/proc/no.json"), "--report /proc/no.json cannot be written"),
        (dict(log="/"), "--log / cannot be written .Is a directory"),
        (dict(network="eth0", dry_run=True), "--network, --dry-run: for a real robot"),
        (dict(commands="remote"), "a simulated robot has none"),
        (dict(command=(0.5, 0.0, 0.0), commands="walk.csv"), "--command and --commands: one source"),
        (dict(robot="unitree", video="walk.mp4", noise=1.0), "--video, --noise: for a simulated robot"),
        (dict(robot="unitree", world=World(pushes=True, push_every=2.0)), "--pushes, --push-every: for a simulated"),
    ],
)
def test_what_cannot_be_done_is_refused(options, message):
    with pytest.raises(FlashSACError, match=message):
        deploy("never opened", DeployOptions(**options))


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (dict(friction=0.0), r"--friction must lie in \(0, 10\], not 0"),
        (dict(spread=-0.1), r"--spread must lie in \[0, 1\], not -0.1"),
        (dict(action_delay=np.nan), r"--action-delay must lie in \[0, 2\], not nan"),
        (dict(observation_delay=1e9), r"--observation-delay must lie in \[0, 2\], not 1e\+09"),
        (dict(push_speed=3.0), "add --pushes"),
    ],
)
def test_no_such_world(world, message):
    with pytest.raises(FlashSACError, match=message):
        World(**world)


def test_a_file_describes_itself(g1_file):
    shown = cli("deploy", str(g1_file), "--describe").stdout
    assert "unitree_g1, policy 50 Hz, motors 500 Hz" in shown
    assert "observation     103 numbers" in shown
    assert "last_action          29  times 1, trained with noise ±0, 1 step late" in shown
    (knee,) = [line.split() for line in shown.splitlines() if line.startswith("left_knee_joint")]
    assert knee == "left_knee_joint 0.669 0.500 75.00 2.000 -0.09 to 2.88 139 20.0".split()
    assert len([line for line in shown.splitlines() if "_joint " in line]) == 29


def test_the_exit_code_tells_scripts_how_it_went():
    codes = {None: 0, "by hand": 130, "fall: the base is near the ground": 3}
    for stopped, code in codes.items():
        assert exit_code([{"stopped": None}, {"stopped": stopped}]) == code
    assert exit_code([{"stopped": reason} for reason in codes]) == 130


def test_the_table():
    rows = [{"stopped": "tilt", "seconds": 2.0}, {"stopped": "tilt", "seconds": 4.0, "unheard": 7, "cut": 5}]
    assert report.table(rows).splitlines() == [
        "episodes                  2, stopped early 2",
        "stopped: tilt (2 times)",
        "seconds until the end     3.000 (from 2.000 to 4.000)",
        "note: in 7 policy steps the last command was too old and taken for zero",
        "note: in 5 policy steps the command was cut to what the policy was trained on (--describe shows that)",
    ]
    assert "from" not in report.table(rows[:1])


def test_the_report_outlives_whoever_reads_the_lines(g1_file, tmp_path):
    """Its terminal is closed, or the program behind the pipe ends after a line."""
    written = tmp_path / "report.json"
    command = f"{sys.executable} -m flashsac deploy {g1_file} --seconds 0.1 --episodes 2 --report {written} | head -n 1"
    environ = environment() | {"PYTHONUNBUFFERED": "1"}
    subprocess.run(command, shell=True, env=environ, check=True, capture_output=True, timeout=PATIENCE)
    assert len(json.loads(written.read_text())["episodes"]) >= 1
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]


def dead_source() -> Pipe:
    """A pipe that has come to its end, and is known to have."""
    stream = Pipe(os.open(os.devnull, os.O_RDONLY))
    while stream.read(0.0) is None:
        time.sleep(0.01)
    return stream


def test_a_dead_source_touches_no_robot(g1_file):
    class Untouched(SimulatedUnitree):
        def open(self, robot, safety, seed, hear_remote):
            pytest.fail("it was taken over")

    options = DeployOptions(robot="unitree", commands="stdin")
    with pytest.raises(FlashSACError, match="source of commands ended. The robot was not touched"):
        deploy(g1_file, options, backend=Untouched(), commands=dead_source())


def test_a_dead_source_ends_all_episodes(g1_file):
    (row,) = deploy(g1_file, DeployOptions(commands="stdin", episodes=3), commands=dead_source())
    assert row["stopped"] == "the source of commands ended"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_damp_for_a_second_and_still_report(g1_file, number):
    command = [
        sys.executable,
        "-m",
        "flashsac",
        "deploy",
        str(g1_file),
        "--real-time",
        "--seconds",
        "60",
        "--tilt",
        "1.5",
    ]
    running = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)
    assert "policy 50 Hz, motors 500 Hz" in running.stdout.readline()
    time.sleep(0.3)
    running.send_signal(number)
    time.sleep(0.2)
    running.send_signal(number)  # impatience, or a terminal that is closed twice, must not cut the damping short
    out, _ = running.communicate(timeout=PATIENCE)
    assert "stopped: by hand" in out or "fall" in out
    assert running.returncode in (130, 3)
