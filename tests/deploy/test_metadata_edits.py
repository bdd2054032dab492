"""A file is not trusted: whatever its metadata say, the motors get nothing beyond the robot's own limits."""

from __future__ import annotations

import contextlib
import copy
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from flashsac.deploy.backends import MujocoBackend
from flashsac.deploy.deployment import DeployOptions, deploy, exit_code
from flashsac.deploy.interface import RobotInterface, Sensors
from flashsac.deploy.onnx_policy import OnnxPolicy, sealed
from flashsac.deploy.safety import MotorLimits
from flashsac.errors import FlashSACError
from flashsac.robots.catalog import GAIN_MARGIN, ROBOTS
from flashsac.robots.description import Robot
from flashsac.robots.g1 import G1_LIMITS

EDITS = 1000
G1S = [robot for robot in ROBOTS.values() if robot.name == "unitree_g1"]
STRANGE = [
    math.nan,
    math.inf,
    -math.inf,
    0,
    0.0,
    -1,
    -1.0,
    1e9,
    -1e9,
    1e308,
    1e-308,
    10**400,
    2**63,
    None,
    True,
    "7",
    "",
    [],
    {},
]
FACTORS = [-1.0, 0.0, 0.01, 0.5, 0.9, 1.1, 2.0, 3.0, 10.0, 1e3, 1e6]


class Recorder(RobotInterface):
    """Follows its targets at once. Fails the test at the first order beyond the limits of the real G1."""

    def __init__(self, robot: Robot):
        names = [joint.name for joint in robot.joints]
        self._period = 1.0 / robot.motor_hz
        self._torque = np.array([G1_LIMITS[name].torque for name in names])
        own = [[joint for g1 in G1S for joint in g1.joints if joint.name == name] for name in names]
        self._stiffest = np.array([GAIN_MARGIN * max(joint.stiffness for joint in joints) for joints in own])
        self._most_damped = np.array([GAIN_MARGIN * max(joint.damping for joint in joints) for joints in own])
        self._time, self._position = 0.0, np.array([joint.default for joint in robot.joints])
        self._velocity = np.full(len(names), 0.5)
        self._emergency = MotorLimits(robot).stop_damping
        self.orders = self.damped = 0

    def now(self) -> float:
        return self._time

    def read(self) -> Sensors:
        upright = np.array([1.0, 0.0, 0.0, 0.0])
        return Sensors(self._time, upright, np.zeros(3), self._position, self._velocity, linear_velocity=np.zeros(3))

    def write(self, target: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        torque = stiffness * (target - self._position) - damping * self._velocity
        assert np.isfinite([target, stiffness, damping, torque]).all()
        assert (np.abs(torque) <= self._torque * (1 + 1e-9)).all()
        assert ((stiffness > 0) & (stiffness <= self._stiffest)).all()
        assert ((damping >= 0) & (damping <= self._most_damped)).all()
        self._time, self._position, self.orders = self._time + self._period, target, self.orders + 1

    def damp(self) -> None:
        assert np.isfinite(self._emergency).all()
        assert ((self._emergency >= 0) & (self._emergency <= self._torque / 20.0)).all()
        self._time, self.damped = self._time + self._period, self.damped + 1


class Recording(MujocoBackend):
    """Keeps the robots that it opened."""

    def __init__(self) -> None:
        super().__init__()
        vars(self)["opened"] = []  # the dataclass is frozen

    def open(self, robot, safety, seed, hear_remote) -> Recorder:
        if robot.name != "unitree_g1":  # as our backends do
            raise FlashSACError(f"there is no model of {robot.name}.")
        vars(self)["opened"].append(Recorder(robot))
        return vars(self)["opened"][-1]


def places(tree: Any, path: tuple = ()) -> list[tuple]:
    """Every place in the metadata, inner ones too."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path] * bool(path) + [place for key, value in inner for place in places(value, (*path, key))]


def at(tree: Any, path: tuple) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def edit(metadata: dict[str, Any], draw: random.Random) -> tuple[tuple, str]:
    """Change one value in place; returns where, and how."""
    # As many edits of a rate or a range as of a joint, though there are far more joints.
    groups: dict[str, list[tuple]] = {}
    for place in places(metadata):
        groups.setdefault(".".join(str(key) for key in place if isinstance(key, str)), []).append(place)
    path = draw.choice(groups[draw.choice(sorted(groups))])
    holder, key, how = (
        at(metadata, path[:-1]),
        path[-1],
        draw.choice(["strange", "strange", "factor", "missing", "swap"]),
    )
    if how == "missing":
        del holder[key]
    elif how == "swap":
        other = draw.choice(
            [place for place in places(metadata) if place[: len(path)] != path and path[: len(place)] != place]
        )
        there = at(metadata, other[:-1])
        holder[key], there[other[-1]] = there[other[-1]], holder[key]
    elif how == "factor" and type(holder[key]) in (int, float):
        holder[key] *= draw.choice(FACTORS)
    else:
        holder[key] = draw.choice(STRANGE)
    return path, how


class Editor:
    """Writes the exported file with other metadata, sealed as if it were honest."""

    def __init__(self, honest: Path, file: Path):
        self._model, self._file = onnx.load(honest), file
        self.metadata = json.loads(self._model.metadata_props[0].value)

    def write(self, metadata: dict[str, Any]) -> Path:
        return self.write_text(json.dumps(metadata))

    def write_text(self, text: str) -> Path:
        self._model.metadata_props[0].value = text
        self._file.write_bytes(sealed(self._model.SerializeToString()))
        return self._file


@pytest.fixture(scope="module")
def editor(g1_file, tmp_path_factory) -> Editor:
    return Editor(g1_file, tmp_path_factory.mktemp("edited") / "edited.onnx")


def run(file: Path, report: Path) -> tuple[str, list[Recorder]]:
    """Deploy the file: how it ended, and the robots that it moved."""
    report.unlink(missing_ok=True)
    backend = Recording()
    opened = vars(backend)["opened"]
    try:
        rows = deploy(file, DeployOptions(seconds=0.06, stand=0.04, report=str(report)), backend=backend)
    except FlashSACError:
        assert not opened, "it was refused before it moved"
        return "refused", opened
    (row,) = json.loads(report.read_text(), parse_constant=lambda name: pytest.fail(f"{name} in the report"))[
        "episodes"
    ]
    assert [row] == rows
    assert exit_code(rows) == (3 if row["stopped"] else 0)
    assert opened[0].damped
    return "stopped" if row["stopped"] else "ran", opened


def test_a_thousand_edits(editor, tmp_path, capsys):
    draw, ends = random.Random(25), {"refused": 0, "stopped": 0, "ran": 0}
    for number in range(EDITS):
        metadata = copy.deepcopy(editor.metadata)
        edits = []
        for _ in range(draw.choice([1, 1, 1, 2, 3])):
            with contextlib.suppress(KeyError, IndexError, TypeError):  # an earlier edit removed the place
                edits.append(edit(metadata, draw))
        try:
            end, robots = run(editor.write(metadata), tmp_path / "report.json")
        except Exception as error:
            raise AssertionError(f"edit {number}, {edits}: {error}") from error
        ends[end] += 1
        assert end != "ran" or robots[0].orders >= 15, edits
        capsys.readouterr()
    assert ends["refused"] > EDITS / 2, ends
    assert ends["ran"] > EDITS / 50, ends


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("joints.3.stiffness", 0.0, "left_knee_joint: stiffness must lie in"),
        ("joints.3.stiffness", math.nan, "left_knee_joint: stiffness must lie in"),
        ("joints.3.stiffness", 1e6, "left_knee_joint: stiffness must lie in"),
        ("joints.3.stiffness", 500.0, "left_knee_joint of unitree_g1: stiffness must be at most 198.16, not 500"),
        ("joints.3.damping", -1.0, "left_knee_joint: damping must lie in"),
        ("joints.3.damping", 50.0, "left_knee_joint of unitree_g1: damping must be at most 12.622, not 50"),
        ("joints.3.limits.torque", math.nan, "limits.torque must lie in"),
        ("joints.3.limits.torque", -100.0, "limits.torque must lie in"),
        ("joints.3.limits.torque", 1e9, "limits.torque must lie in"),
        ("joints.3.limits.speed", math.nan, "limits.speed must lie in"),
        ("joints.3.limits.upper", math.nan, "limits.upper must lie in"),
        ("joints.3.limits.upper", -1.0, "its lower stop, -0.087267, must lie below its upper, -1"),
        ("joints.3.default", 5.0, "its default angle, 5, must lie between its stops"),
        ("joints.3.name", "left_hip_roll_joint", "each of them once"),
        ("joints.3.name", "tail_joint", "unitree_g1 has 29 joints, and the file names others"),
        ("motor_hz", 10.0, "motor-hz must lie in"),
        ("motor_hz", 75.0, "motor_hz, 75, must be a whole multiple of policy_hz, 50"),
        ("policy_hz", math.inf, "policy-hz must lie in"),
        ("gait_hz", math.nan, "gait-hz must lie in"),
        ("gait_hz", None, "phase needs"),
        ("action_scale.0", math.nan, "an action scale must lie in"),
        ("command_range.0", [1.0, -1.0], "a command range must rise"),
        ("history", -1, "history must lie in"),
        ("observation.0.size", 4, "linear_velocity has 4 numbers, not 3"),
        ("observation.0.name", "height_map", "no robot measures height_map"),
        ("observation.0.scale", math.inf, "scale must lie in"),
        ("observation.6.delay", 10**6, "delay must lie in"),
    ],
)
def test_numbers_out_of_range_are_refused(editor, field, value, complaint):
    metadata = copy.deepcopy(editor.metadata)
    path = [int(key) if key.isdigit() else key for key in field.split(".")]
    at(metadata["robot"], path[:-1])[path[-1]] = value
    with pytest.raises(FlashSACError, match=f"its metadata cannot be read .*{complaint}.*Export the policy again"):
        OnnxPolicy(editor.write(metadata))


def test_the_smaller_limits_win(editor):
    metadata = copy.deepcopy(editor.metadata)
    hip, knee = (metadata["robot"]["joints"][i]["limits"] for i in (0, 3))
    hip |= {"lower": -9.0, "upper": 9.0, "torque": 1000.0, "speed": 100.0}
    knee |= {"lower": 0.0, "upper": 1.0, "torque": 10.0, "speed": 1.0}
    robot = OnnxPolicy(editor.write(metadata)).robot()
    assert robot.joints[0].limits == G1_LIMITS["left_hip_pitch_joint"]
    assert vars(robot.joints[3].limits) == knee


def test_deep_and_long_metadata_are_refused(editor):
    for robot in (50_000 * "[" + 50_000 * "]", f'"{2_000_000 * "x"}"', '{"joints": [' + 2000 * "{}," + "{}]}"):
        text = json.dumps(editor.metadata | {"robot": "HERE"}).replace('"HERE"', robot)
        with pytest.raises(FlashSACError, match="metadata cannot be read"):
            OnnxPolicy(editor.write_text(text))
