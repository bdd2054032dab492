"""Sources of commands, and what becomes of the robot when one dies."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import termios
import time

import numpy as np
import pytest

from flashsac.deploy.commands.base import Command
from flashsac.deploy.commands.fixed import Fixed, Script
from flashsac.deploy.commands.keyboard import split_keys
from flashsac.deploy.commands.make import make_commands
from flashsac.deploy.commands.stream import Numbered, Pipe, Udp, parse, parse_numbered
from flashsac.deploy.loop import Loop
from flashsac.deploy.safety import Safety
from flashsac.errors import FlashSACError
from flashsac.robots.catalog import ROBOTS
from tests.deploy.fake_robots import BLIND_G1, Puppet
from tests.helpers import ROOT, wait_until

RANGES = ((-0.6, 1.0), (-0.5, 0.5), (-1.57, 1.57))
WALK = "import time\nwhile True:\n    print('0.5 0 0.1', flush=True)\n    time.sleep(0.02)"
WALK_BY_UDP = (
    "import socket, sys, time\nto = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    "while True:\n    line = f'{time.monotonic_ns()} 0.5 0 0.1'.encode()\n"
    "    to.sendto(line, ('127.0.0.1', int(sys.argv[1])))\n    time.sleep(0.02)"
)


def test_scripts(tmp_path):
    table = tmp_path / "walk.csv"
    table.write_text("seconds,vx,vy,yaw\n0,0,0,0\n2,0.5,0,0\n5,0,0,-0.3\n")
    script = Script(table)
    for seconds, expected in ((0.0, [0, 0, 0]), (1.99, [0, 0, 0]), (2.0, [0.5, 0, 0]), (9.0, [0, 0, -0.3])):
        np.testing.assert_allclose(script.read(seconds).velocity, expected)
    as_json = tmp_path / "walk.json"
    as_json.write_text("[[0, 0.1, 0, 0], [1, 0.2, 0, 0]]")
    assert Script(as_json).read(1.5).velocity[0] == 0.2
    for text in ("", "1,2,3\n", "0,a,b,c\n", "0,nan,0,0\n", "O,0.5,0,0\n2,0,0,0\n"):
        table.write_text(text)
        with pytest.raises(FlashSACError, match="no script of commands"):
            Script(table)
    for text in ("5,1,0,0\n2,0,0,0\n", "0,1,0,0\n0,0,0,0\n", "-1,1,0,0\n"):
        table.write_text(text)
        with pytest.raises(FlashSACError, match="rise from row to row"):
            Script(table)
    with pytest.raises(FlashSACError, match=r"No such file.* stdin, udp:PORT, or remote"):
        make_commands(str(tmp_path / "missing.csv"), (0, 0, 0), keyboard=False, ranges=RANGES)


def test_a_script_begins_when_it_says(tmp_path):
    table = tmp_path / "walk.csv"
    table.write_text("3,0.5,0,0\n")
    assert [Script(table).read(seconds).velocity[0] for seconds in (0.0, 2.9, 3.0)] == [0.0, 0.0, 0.5]
    table.write_bytes(b"\xef\xbb\xbf0,0.5,0,0\r\n2,0,0,0\r\n")  # as a spreadsheet writes it
    assert [Script(table).read(seconds).velocity[0] for seconds in (0.0, 2.0)] == [0.5, 0.0]


def test_the_walk_of_the_benchmarks():
    """Ahead, sideways, turning and stopping, each within what any G1 here was trained on."""
    script = Script(ROOT / "benchmarks" / "walk.csv")
    walk = [script.read(seconds).velocity for seconds in (0.0, 5.0, 10.0, 15.0, 19.9)]
    assert [(velocity != 0).tolist() for velocity in walk] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
        [False, False, False],
        [False, False, False],
    ]
    for robot in ROBOTS.values():
        slowest, fastest = np.array(robot.command_range).T
        assert all(np.all((slowest <= velocity) & (velocity <= fastest)) for velocity in walk)


def test_garbled_lines_move_nobody():
    np.testing.assert_allclose(parse(b"0.5, 0 -0.2"), [0.5, 0, -0.2])
    for line in (b"", b"1 2", b"1 2 3 4", b"fast 0 0", b"nan 0 0", b"inf 0 0", b"\xff\xfe"):
        assert parse(line) is None


def test_a_pipe_is_read_line_by_line():
    reading, writing = os.pipe()
    stream = Pipe(reading)
    assert stream.read(0.0) is None
    os.write(writing, b"0.1 0 0\n0.2 0 0\n0.3 0")  # the last line is not whole yet
    time.sleep(0.1)
    command = stream.read(0.0)
    assert command.velocity[0] == 0.2
    assert 0.0 < command.age < 1.0
    stream.close()


def test_an_endless_line_takes_no_memory_and_moves_nobody():
    reading, writing = os.pipe()
    stream = Pipe(reading)
    for _ in range(20):
        os.write(writing, 50_000 * b"7")
    os.write(writing, b" 0 0\n0.5 0 0\n")
    assert wait_until(lambda: stream.read(0.0) is not None)
    np.testing.assert_allclose(stream.read(0.0).velocity, [0.5, 0, 0])
    assert parse(300 * b" " + b"1 0 0" + 300 * b" ") is None
    stream.close()


def test_datagrams_have_a_number():
    number, velocity = parse_numbered(b"17 0.5, 0 -0.2")
    assert number == 17
    np.testing.assert_allclose(velocity, [0.5, 0, -0.2])
    for line in (
        b"",
        b"17",
        b"0.5 0 0.1",
        b"-1 0 0 0",
        b"1.5 0 0 0",
        b"nan 0 0 0",
        b"1 nan 0 0",
        b"1 0 0 0 0",
        b"\xb2 0 0 0",
    ):
        assert parse_numbered(line) is None
    assert parse_numbered(b"%d 0 0 0" % 2**63) is None, "a number that no later one could exceed"


def test_old_datagrams_move_nobody(capsys):
    """Repeated, out of order, recorded, or without a number."""
    numbered = Numbered()
    assert numbered.take(b"100 0.5 0 0") is not None
    for attack in (b"100 0.5 0 0", b"99 9 0 0", b"0 9 0 0", b"9 0 0", b"1e9 9 0 0", b"-5 9 0 0", b"101 nan 0 0"):
        assert numbered.take(attack) is None
    np.testing.assert_allclose(
        numbered.take(b"101 0.6 0 0"), [0.6, 0, 0], err_msg="a garbled one has used up no number"
    )
    assert capsys.readouterr().out.count("a datagram was ignored: its number is not higher than the last") == 1


def test_a_sender_is_started_again():
    stream = Udp(0)
    for velocity in (0.1, 0.2):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"%d %f 0 0" % (time.monotonic_ns(), velocity), ("127.0.0.1", stream.port))
            assert wait_until(lambda: stream.read(0.0) is not None)
            assert wait_until(lambda wanted=velocity: stream.read(0.0).velocity[0] == wanted)
    stream.close()


def test_keys_need_a_terminal_and_ports_a_number():
    with pytest.raises(FlashSACError, match="needs a terminal"):
        make_commands(None, (0, 0, 0), keyboard=True, ranges=RANGES)
    for port in ("http", "0", "99999", ""):
        with pytest.raises(FlashSACError, match="a port is a number from 1 to 65535"):
            make_commands(f"udp:{port}", (0, 0, 0), keyboard=False, ranges=RANGES)
    taken = Udp(0)
    with pytest.raises(FlashSACError, match="Name another port"):
        make_commands(f"udp:{taken.port}", (0, 0, 0), keyboard=False, ranges=RANGES)
    taken.close()


def test_keys(monkeypatch):
    ours, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        as_it_was = termios.tcgetattr(terminal)
        keyboard = make_commands(None, (0, 0, 0), keyboard=True, ranges=RANGES)
        time.sleep(0.2)
        assert termios.tcgetattr(terminal) != as_it_was
        os.write(ours, b"z?")
        time.sleep(0.3)
        assert keyboard.read(0.0) is None, "nobody has pressed a key of ours yet"
        os.write(ours, b"\xe9\x1b")  # a key of another alphabet, and Escape
        time.sleep(0.3)
        os.write(ours, b"wWaqd?")
        time.sleep(0.5)
        command = keyboard.read(0.0)
        np.testing.assert_allclose(command.velocity, [0.2, 0.0, 0.1])
        assert command.age < 2.0, "fresh without a key"
        os.write(ours, b"w" * 50 + b"s")
        time.sleep(0.5)
        np.testing.assert_allclose(keyboard.read(0.0).velocity, [0.9, 0.0, 0.1], err_msg="no further than trained on")
        os.write(ours, b" ")
        time.sleep(0.3)
        assert not keyboard.read(0.0).velocity.any()
        os.write(ours, b"X")  # Caps Lock
        time.sleep(0.5)
        assert keyboard.read(0.0).ended == "the key x"
        keyboard.close()
        again = make_commands(None, (0, 0, 0), keyboard=True, ranges=RANGES)
        again.close()
        assert termios.tcgetattr(terminal) == as_it_was


def test_keys_that_terminals_send_in_pieces():
    assert split_keys("w\x1b[as\x1b[1;5d") == (["w", "\x1b[a", "s", "\x1b[1;5d"], "")
    for piece in ("\x1b", "\x1b[", "\x1b[1;"):
        assert split_keys("w" + piece) == (["w"], piece)
    assert split_keys("\x1bx") == (["\x1b", "x"], ""), "Alt hides no x"
    assert split_keys("\x1b[[a\x1boa\x1b[?1;2c") == (["\x1b[[a", "\x1boa", "\x1b[?1;2c"], ""), "F1 is no a"


def test_a_real_robot_waits_for_enter(monkeypatch):
    with pytest.raises(FlashSACError, match="there is no terminal"):
        make_commands(None, (0.5, 0, 0), keyboard=False, ranges=RANGES, wait_for_enter=True)
    ours, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        commands = make_commands(None, (0.5, 0, 0), keyboard=False, ranges=RANGES, wait_for_enter=True)
        os.write(ours, b"\n")  # too early
        time.sleep(0.1)
        assert commands.read(0.0).velocity[0] == 0.5, "heard"
        commands.listen()
        assert commands.read(0.0) is None, "and forgotten"
        os.write(ours, b"\n")
        time.sleep(0.1)
        assert commands.read(0.0).velocity[0] == 0.5
        assert commands.read(1.0).velocity[0] == 0.5
        commands.close()


def test_a_closed_terminal_stops_at_once(monkeypatch):
    ours, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        keyboard = make_commands(None, (0, 0, 0), keyboard=True, ranges=RANGES)
        os.write(ours, b"w")
        time.sleep(0.3)
        os.close(ours)
        time.sleep(0.3)
        assert keyboard.read(0.0).ended == "the terminal is gone"
        keyboard.close()


@pytest.mark.parametrize("way", ["pipe", "udp"])
def test_a_killed_source_stops_the_robot(way):
    """A real process, killed with no chance to say goodbye: first the robot stands, then it damps."""
    if way == "pipe":
        sender = subprocess.Popen([sys.executable, "-c", WALK], stdout=subprocess.PIPE)
        stream = Pipe(sender.stdout.fileno())
    else:
        stream = Udp(0)
        sender = subprocess.Popen([sys.executable, "-c", WALK_BY_UDP, str(stream.port)])
    killed: list[float] = []
    seen: list[tuple[float, np.ndarray]] = []

    def policy(obs: dict[str, np.ndarray]) -> np.ndarray:
        seen.append((time.monotonic(), obs["actor"][6:9].copy()))  # the command, in this robot's observation
        if len(seen) == 20:
            sender.kill()
            sender.wait()
            killed.append(time.monotonic())
        return np.zeros(29)

    puppet = Puppet(29)
    try:
        episode = Loop(BLIND_G1, policy, puppet, stream, Safety(BLIND_G1)).run(60.0, damp=0.1)
    finally:
        sender.kill()
        sender.wait()
        stream.close()
    ended = seen[-1][0] - killed[0]
    assert "watchdog: no command for" in episode.stopped
    assert puppet.damped > 0
    np.testing.assert_allclose(seen[0][1], [0.5, 0, 0.1], atol=1e-6)
    zeroed = next(at for at, command in seen if at > killed[0] and not command.any()) - killed[0]
    assert zeroed < ended, "it stands before it damps"
    assert 1.4 < ended < 4.0, "1.5 s, and what a busy machine adds"
    assert all(not command.any() for at, command in seen if at - killed[0] > zeroed)
    assert episode.unheard == sum(not command.any() for _, command in seen)


def test_what_is_said_while_the_robot_stands_up_is_forgotten():
    class Early(Fixed):
        heard = True

        def listen(self) -> None:
            self.heard = False

        def read(self, seconds: float) -> Command | None:
            return super().read(seconds) if self.heard else None

    early, told = Early((0.5, 0.0, 0.0)), []
    puppet = Puppet(29)

    def write(target, stiffness, damping) -> None:
        told.append(early.heard)
        puppet.position = target
        if len(told) == 40:
            early.heard = True

    puppet.write = write
    loop = Loop(
        BLIND_G1,
        lambda _: np.zeros(29),
        puppet,
        early,
        Safety(BLIND_G1),
        real_time=False,
        stand=0.1,
    )
    episode = loop.run(0.2, damp=0.0)
    motor_steps = round(BLIND_G1.motor_hz / BLIND_G1.policy_hz)
    assert told.index(False) == 5 * motor_steps, "0.1 s of standing up are 5 policy steps"
    assert len(episode.moments) == 10
    assert len(told) == 40 + 10 * motor_steps, "the policy began when it was said again"


def test_steps_whose_command_was_cut_are_counted(tmp_path):
    script = tmp_path / "fast.csv"
    script.write_text("0,0.5,0,0\n1,9,0,0\n1.5,0.5,0,0\n")
    loop = Loop(BLIND_G1, lambda _: np.zeros(29), Puppet(29), Script(script), Safety(BLIND_G1), real_time=False)
    episode = loop.run(2.0, damp=0.0)
    fastest = BLIND_G1.command_range[0][1]
    assert episode.cut == 25, "half a second at 50 Hz"
    assert [moment.command[0] for moment in episode.moments] == 50 * [0.5] + 25 * [fastest] + 25 * [0.5]


def test_nobody_will_ever_speak():
    reading, writing = os.pipe()
    os.close(writing)
    stream, puppet = Pipe(reading), Puppet(29)
    episode = Loop(BLIND_G1, lambda obs: np.zeros(29), puppet, stream, Safety(BLIND_G1)).run(60.0, damp=0.1)
    assert "source of commands ended" in episode.stopped
    assert puppet.damped > 0
    stream.close()


def test_a_port_is_free_again():
    first = Udp(0)
    port = first.port
    first.close()
    Udp(port).close()


def test_nobody_has_spoken_yet():
    """Before the first command the robot holds its pose, and the policy does not run."""
    reading, writing = os.pipe()
    stream, puppet, asked = Pipe(reading), Puppet(29), []

    def policy(obs: np.ndarray) -> np.ndarray:
        asked.append(len(puppet.targets))
        return np.zeros(29)

    def speak() -> None:
        if len(puppet.targets) > 60:
            os.write(writing, b"0 0 0\n")

    puppet.watch = speak
    episode = Loop(BLIND_G1, policy, puppet, stream, Safety(BLIND_G1)).run(0.2, damp=0.02)
    assert episode.stopped is None
    assert asked[0] > 60
    np.testing.assert_allclose(puppet.targets[59], [joint.default for joint in BLIND_G1.joints])
    stream.close()
