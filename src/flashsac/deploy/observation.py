"""The observation, built as the policy's task built it."""

from __future__ import annotations

import collections

import numpy as np

from flashsac.deploy.interface import Sensors, gravity_in_base
from flashsac.errors import FlashSACError
from flashsac.robots.description import Robot


def check_blind(robot: Robot) -> None:
    """Raise an error if the policy observes the velocity of the base; for robots that do not measure it."""
    if any(term.name == "linear_velocity" for term in robot.observation):
        raise FlashSACError(
            "this policy sees the velocity of the base, which this robot does not measure. Train one that does not see it "
            "(--env.blind, or the G1 task of the paper), or run this one with --robot mujoco."
        )


class Observer:
    """The builder of observations, called once per policy step. It remembers past actions and the phase of the gait."""

    def __init__(self, robot: Robot, *, noise: float = 0.0, seed: int = 0):
        self.robot, self.noise = robot, noise
        self._random = np.random.default_rng(seed)
        self._default = np.array([joint.default for joint in robot.joints])
        self._delay = {term.name: term.delay for term in robot.observation}
        legs = next((term.size // 2 for term in robot.observation if term.name == "phase"), 0)
        self._first_phase = np.arange(legs) * 2 * np.pi / max(legs, 1)
        self.reset()

    def reset(self) -> None:
        zero = np.zeros(len(self.robot.joints))
        self._actions = collections.deque([zero] * (1 + self._delay.get("last_action", 0)))
        self._past: collections.deque[np.ndarray] = collections.deque(maxlen=self.robot.history)
        self._steps = 0

    def check(self, sensors: Sensors) -> None:
        """Raise an error if the policy observes what this robot does not measure."""
        if sensors.linear_velocity is None:
            check_blind(self.robot)

    def observe(self, sensors: Sensors, command: np.ndarray) -> np.ndarray:
        """The newest observation, shape (obs_dim,), float32."""
        # Until the first step, a delayed phase stays at its first value.
        steps = max(self._steps - self._delay.get("phase", 0), 0)
        phase = self._first_phase + 2 * np.pi * (self.robot.gait_hz or 0.0) / self.robot.policy_hz * steps
        values = {
            "linear_velocity": sensors.linear_velocity,
            "angular_velocity": sensors.angular_velocity,
            "gravity": gravity_in_base(sensors.quaternion),
            "command": command,
            "joint_position": sensors.position - self._default,
            "joint_velocity": sensors.velocity,
            "last_action": self._actions[0],
            "phase": np.concatenate([np.cos(phase), np.sin(phase)]),
        }
        parts = []
        for term in self.robot.observation:
            value = np.asarray(values[term.name], np.float64)
            if self.noise and term.noise:
                value = value + self.noise * term.noise * self._random.uniform(-1.0, 1.0, value.shape)
            parts.append(value * term.scale)
        return np.concatenate(parts).astype(np.float32)

    def inputs(self, sensors: Sensors, command: np.ndarray) -> dict[str, np.ndarray]:
        """All inputs of the policy. As in training, the first observation also fills the history."""
        newest = self.observe(sensors, command)
        if not self.robot.history:
            return {"actor": newest}
        if not self._past:
            self._past.extend([newest] * self.robot.history)
        past = np.concatenate(self._past)
        self._past.append(newest)
        return {"actor": newest, "history": past}

    def note(self, action: np.ndarray) -> None:
        """Remember the action, shape (joints,); ends the policy step."""
        self._actions.append(action)
        self._actions.popleft()
        self._steps += 1
