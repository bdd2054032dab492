"""An exported policy, run by onnxruntime without torch. An ONNX file holds numbers and operators, never code."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from pathlib import Path

import numpy as np

from flashsac.errors import FlashSACError, MissingExtra
from flashsac.robots.catalog import bounded
from flashsac.robots.description import Robot
from flashsac.robots.reading import build, read_json

FORMAT = 2
KEY = "flashsac"
"""Key of our JSON in the metadata of the ONNX file."""
UNSEALED = "0" * 64
"""Placeholder for the checksum while the checksum is computed."""
_SEAL = re.compile(rb'"sha256": "([0-9a-f]{64})"')


@dataclasses.dataclass(frozen=True)
class PolicyInfo:
    """What a file says about its policy."""

    task: str
    version: str
    """Version of flashsac that exported it."""
    step: int | None
    """Training step, where it is known."""
    observations: dict[str, list[int]]
    """Shapes of the network's inputs, without the batch."""
    action_low: list[float]
    action_high: list[float]
    """The simulator's action bounds; the policy's -1 and 1 stand for them."""
    robot: Robot | None
    format: int = FORMAT
    sha256: str = UNSEALED
    """Checksum of the file, computed with zeros in this place."""

    def to_json(self) -> str:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return json.dumps(values | {"robot": dataclasses.asdict(self.robot) if self.robot else None})

    @staticmethod
    def from_json(text: str, source: str | Path) -> PolicyInfo:
        """What a file says, checked: a robot's numbers lie within their ranges, and within those of a robot we know."""
        try:
            values = read_json(text)
            found = values.get("format") if isinstance(values, dict) else None
            if found == FORMAT:
                info = build(PolicyInfo, values)
                return dataclasses.replace(info, robot=bounded(info.robot)) if info.robot else info
        except (ValueError, FlashSACError) as error:
            raise FlashSACError(
                f"{source}: its metadata cannot be read ({str(error).rstrip('.')}). Export the policy again."
            ) from None
        raise FlashSACError(
            f"{source} has format {found!r:.20}, this version of flashsac reads {FORMAT}. Export the policy again."
        )


def sealed(content: bytes) -> bytes:
    """The file with its checksum inside: the robot gets exactly the file that was compared with the policy."""
    return _SEAL.sub(b'"sha256": "%s"' % checksum(content).encode(), content, count=1)


def checksum(content: bytes) -> str:
    """The checksum that the file must hold."""
    return hashlib.sha256(_SEAL.sub(b'"sha256": "%s"' % UNSEALED.encode(), content, count=1)).hexdigest()


class OnnxPolicy:
    """A policy that maps observations to actions in [-1, 1], shape (joints,) or (batch, joints)."""

    def __init__(self, path: str | Path, *, threads: int = 1):
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtra(
                f'running an exported policy needs onnxruntime ({error}): pip install "flashsac[deploy]"'
            ) from None
        path = Path(path)
        if path.is_dir() or path.suffix in (".safetensors", ".pt"):
            raise FlashSACError(f"{path} is no exported policy. First: flashsac export {path} --out policy.onnx")
        if not path.is_file():
            raise FlashSACError(f"{path} does not exist. `flashsac export RUN --out {path}` writes one.")
        options = onnxruntime.SessionOptions()
        # The network is small: a second thread would cost more than it computes, and would disturb the loop.
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        options.log_severity_level = 3
        try:
            content = path.read_bytes()
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            ours = self._session.get_modelmeta().custom_metadata_map.get(KEY)
            inputs = {given.name: list(given.shape[1:]) for given in self._session.get_inputs()}
            actions = self._session.get_outputs()[0].shape[-1]
        except Exception as error:  # onnxruntime raises its own types, none of them public
            raise FlashSACError(
                f"{path} is corrupt or no ONNX file ({_reason(error)}). Export the policy again."
            ) from None
        if ours is None:
            raise FlashSACError(f"{path} is an ONNX file, but not one of `flashsac export`.")
        self.info = PolicyInfo.from_json(ours, path)
        bounds = {len(self.info.action_low), len(self.info.action_high)}
        if inputs != self.info.observations or bounds != {actions}:
            raise FlashSACError(f"{path} holds another network than its metadata describes. Export the policy again.")
        if self.info.sha256 != checksum(content):
            raise FlashSACError(
                f"{path} is damaged, or was changed after its export: its checksum does not match. Export it again."
            )
        self._alone = next(iter(inputs)) if len(inputs) == 1 else None

    def __call__(self, obs: np.ndarray | dict[str, np.ndarray]) -> np.ndarray:
        given = obs if isinstance(obs, dict) else {str(self._alone): obs}
        alone = any(rows.ndim == len(self.info.observations[name]) for name, rows in given.items())
        batch = {name: rows[None] if alone else rows for name, rows in given.items()}
        try:
            action = self._session.run(None, batch)[0]
        except Exception as error:  # onnxruntime raises its own types, none of them public
            raise FlashSACError(f"the policy's network cannot be run ({_reason(error)}). Export it again.") from None
        return action[0] if alone else action

    def robot(self) -> Robot:
        """The robot that the policy moves. A file without one, or with one that cannot be deployed, is an error."""
        robot = self.info.robot
        if robot is None:
            raise FlashSACError(
                f"this policy for {self.info.task} names no robot, so it cannot be deployed; it can be called. Robots of tasks are "
                "listed in flashsac/robots/catalog.py."
            )
        shapes = {name: list(shape) for name, shape in robot.shapes().items()}
        if self.info.observations != shapes:
            raise FlashSACError(
                f"this policy takes {self.info.observations}, but {robot.name} as described gives {shapes}. Export it again."
            )
        if len(robot.joints) != len(self.info.action_low):
            raise FlashSACError(
                f"this policy has {len(self.info.action_low)} actions, but {robot.name} as described {len(robot.joints)} joints. "
                "Export it again."
            )
        if any(joint.limits is None for joint in robot.joints):
            raise FlashSACError(f"the description of {robot.name} names no limits of its joints: it must not move.")
        return robot


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
