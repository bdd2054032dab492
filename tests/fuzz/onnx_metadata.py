"""The metadata of an exported policy: any bytes in their place, in a file whose checksum is right."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from flashsac.deploy.onnx_policy import KEY, OnnxPolicy, PolicyInfo, sealed
from flashsac.deploy.report import describe
from flashsac.deploy.safety import MotorLimits
from flashsac.errors import FlashSACError
from flashsac.robots.catalog import ROBOTS
from flashsac.robots.description import Robot

ROBOT = ROBOTS["playground:G1JoystickFlatTerrain"]
JOINTS = len(ROBOT.joints)


def seeds() -> list[bytes]:
    def info(task: str, robot: Robot | None) -> bytes:
        shapes = {"actor": [ROBOT.obs_dim]}
        return PolicyInfo(task, "1.0", 400, shapes, [-1.0] * JOINTS, [1.0] * JOINTS, robot).to_json().encode()

    return [info("playground:G1JoystickFlatTerrain", ROBOT), info("any:Task", None)]


def attack(data: bytes) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.onnx"
        file.write_bytes(sealed(_network() + _field(14, _field(1, KEY.encode()) + _field(2, data))))
        try:
            policy = OnnxPolicy(file)
            describe(policy.info)
            robot = policy.robot()
        except FlashSACError:
            return False
    limits, own = MotorLimits(robot), {joint.name: joint.limits for joint in ROBOT.joints}
    assert ((limits.stop_damping > 0) & (limits.stop_damping <= limits.damping)).all()
    assert robot.name != ROBOT.name or all(limits.torque <= [own[name].torque for name in limits.names])
    policy({name: np.zeros(shape, np.float32) for name, shape in robot.shapes().items()})
    return True


@functools.cache
def _network() -> bytes:
    """A model without metadata: the observation times zero."""
    weights = numpy_helper.from_array(np.zeros((ROBOT.obs_dim, JOINTS), np.float32), "weights")
    node = helper.make_node("MatMul", ["actor", "weights"], ["action"])
    given = helper.make_tensor_value_info("actor", TensorProto.FLOAT, ["batch", ROBOT.obs_dim])
    action = helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", JOINTS])
    graph = helper.make_graph([node], "network", [given], [action], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message: metadata_props are field 14 of a model, with key and value as fields 1 and 2."""
    length, rest = b"", len(content)
    while rest > 127:
        length, rest = length + bytes([rest & 127 | 128]), rest >> 7
    return bytes([number << 3 | 2]) + length + bytes([rest]) + content
