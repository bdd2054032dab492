"""EnvPool: a C++ thread pool with gym MuJoCo, dm_control and MuJoCo Playground inside; the fast simulator on a CPU."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
from torch import Tensor

from flashsac.errors import FlashSACError, RenderError
from flashsac.sims.base import ActionScaler, Unsaved, action_bounds, autoreset, first_obs
from flashsac.sims.vector.sequential import environment_seeds
from flashsac.system.suggest import did_you_mean
from flashsac.types import EnvSpec, Obs, Step

# EnvPool gives every task of a dm_control domain the union of the domain's observations: what to leave out, by task.
_QUADRUPED_EXTRAS = ("origin", "rangefinder", "ball_state", "target_position")
_DROPPED = {
    r"Dog(Stand|Walk|Trot|Run)-v1": ("ball_state", "target_position"),
    r"FingerSpin-v1": ("target_position", "dist_to_target"),
    r"FishUpright-v1": ("target",),
    r"Humanoid(Stand|Walk|Run)-v1": ("position",),
    r"HumanoidRunPureState-v1": ("joint_angles", "head_height", "extremities", "torso_vertical", "com_velocity"),
    r"Quadruped(Walk|Run)-v1": _QUADRUPED_EXTRAS,
    r"QuadrupedEscape-v1": ("ball_state", "target_position"),
    r"QuadrupedFetch-v1": ("origin", "rangefinder"),
}

# Control steps a second, where it is not fifty; EnvPool does not say.
_FPS = {
    r"(Ant|HalfCheetah|InvertedDoublePendulum|Pusher)-v\d": 20.0,
    r"(InvertedPendulum|Swimmer)-v\d|Fetch.*|Hand(Reach|Manipulate).*": 25.0,
    r"(Humanoid|HumanoidStandup)-v\d|Dog.*": 200 / 3,
    r"(Hopper|Walker2d)-v\d": 125.0,
    r"(Acrobot|Cartpole|Cheetah|Manipulator|Stacker).*-v1|Adroit.*|PointMaze.*": 100.0,
    r"Fish.*-v1": 25.0,
    r"HumanoidCMU.*-v1": 50.0,
    r"(Humanoid|Walker).*-v1": 40.0,
    r"(Lqr|Swimmer).*-v1": 100 / 3,
    r"MetaWorld/.*": 80.0,
}

# Settings of EnvPool's that are ours to make: what makes them.
_FLAGS = {
    "num_envs": "--env.num-envs",
    "batch_size": "--env.num-envs (all are stepped together)",
    "max_episode_steps": "--env.max-episode-steps",
    "seed": "--seed",
    "env_seed": "--seed",
}


def frames_per_second(env_id: str) -> float:
    return next((fps for pattern, fps in _FPS.items() if re.fullmatch(pattern, env_id)), 50.0)


def dropped_keys(env_id: str) -> tuple[str, ...]:
    return next((keys for pattern, keys in _DROPPED.items() if re.fullmatch(pattern, env_id)), ())


class EnvPoolVecEnv(Unsaved):
    """`env_id` is EnvPool's own name. The pool is made at reset, when EnvPool takes its seed."""

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        *,
        max_episode_steps: int | None = None,
        render: bool = False,
        simulator_options: tuple[str, ...] = (),
    ):
        if render:
            load_gl_library()
        import envpool

        self._envpool, self._id, self._render = envpool, env_id, render
        self._options: dict[str, Any] = {
            "num_envs": num_envs,
            **own_settings(simulator_options, envpool.make_spec(env_id).config, env_id),
        }
        if max_episode_steps is not None:
            self._options["max_episode_steps"] = max_episode_steps
        described = envpool.make_spec(env_id, **self._options)
        space = described.observation_space
        spaces = getattr(space, "spaces", None)
        if spaces is None:
            self._groups: dict[str, tuple[str, ...]] = {"actor": ("",)}
            widths = {"": int(np.prod(space.shape))}
        else:
            widths = {key: int(np.prod(box.shape)) for key, box in spaces.items() if key not in dropped_keys(env_id)}
            if "privileged_state" in widths:
                self._groups = {"actor": ("state",), "critic": ("privileged_state",)}
            else:
                # Sorted, so that a policy does not care which engine trained it.
                self._groups = {"actor": tuple(sorted(widths))}
        action_space = described.action_space
        low, high = action_bounds(action_space.low, action_space.high, env_id)
        self._scale = ActionScaler(low, high, action_space.dtype)
        self.spec = EnvSpec(
            num_envs=num_envs,
            obs={group: sum(widths[key] for key in keys) for group, keys in self._groups.items()},
            action_dim=len(low),
            action_low=low,
            action_high=high,
            max_episode_steps=int(described.config.max_episode_steps),
            fps=frames_per_second(env_id),
        )
        self._pool: Any = None

    def reset(self, seed: int) -> Obs:
        self.close()
        seeds = [each % 2**31 for each in environment_seeds(seed, self.spec.num_envs)]  # what EnvPool takes
        options = dict(self._options, seed=seeds)
        if self._render:
            options["render_mode"] = "rgb_array"
        self._pool = self._envpool.make(self._id, env_type="gymnasium", **options)
        obs, _ = self._pool.reset()
        return first_obs(self._split(obs))

    def step(self, action: Tensor) -> Step:
        self.send(action)
        return self.receive()

    def send(self, action: Tensor) -> None:
        self._pool.send(self._scale(action))

    def receive(self) -> Step:
        obs, reward, terminated, truncated, info = self._pool.recv()
        # EnvPool would reset on the *next* step and swallow its action. Resetting the finished ones now keeps every
        # step a transition.
        return autoreset(self._split(obs), reward, terminated, truncated, info, self._reset_envs)

    def _reset_envs(self, ids: Tensor) -> dict[str, np.ndarray]:
        obs, _ = self._pool.reset(ids.numpy().astype(np.int32))
        return self._split(obs)

    def _split(self, obs: Any) -> dict[str, np.ndarray]:
        if not isinstance(obs, dict):
            return {"actor": obs.reshape(len(obs), -1)}
        return {
            group: np.concatenate([obs[key].reshape(len(obs[key]), -1) for key in keys], axis=1)
            for group, keys in self._groups.items()
        }

    def render(self) -> np.ndarray:
        return np.asarray(self._pool.render())[0]

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None


def own_settings(given: tuple[str, ...], known: Any, env_id: str) -> dict[str, Any]:
    """name=value as what EnvPool takes: of the type that its own default has."""
    settings: dict[str, Any] = {}
    for setting in given:
        name, equals, text = setting.partition("=")
        if name in _FLAGS:
            raise FlashSACError(f"--env.options {setting}: {name} is set by {_FLAGS[name]}.")
        if not equals and name in known._fields:
            raise FlashSACError(f"--env.options {setting} lacks a value. Its default is {name}={getattr(known, name)}.")
        if name not in known._fields:
            hint = did_you_mean(name, known._fields) or f" It knows {', '.join(known._fields)}."
            raise FlashSACError(f"--env.options {setting}: {env_id} has no such setting.{hint}")
        default = getattr(known, name)
        try:
            value = {"True": True, "False": False}[text] if isinstance(default, bool) else type(default)(text)
        except (KeyError, ValueError) as error:
            raise FlashSACError(
                f"--env.options {setting}: {name} is a {type(default).__name__}, like {default}."
            ) from error
        settings[name] = value
    return settings


def load_gl_library() -> None:
    """EnvPool aborts the process when it draws, unless a GL library was loaded before EnvPool itself was."""
    for name in ("libEGL.so.1", "libOSMesa.so.8", "libOSMesa.so"):
        try:
            ctypes.CDLL(name, ctypes.RTLD_GLOBAL)
            return
        except OSError:
            continue
    raise RenderError(
        "no GL library was found (EGL or OSMesa), so no pictures can be drawn. On Debian and Ubuntu: "
        "apt-get install libegl1 libgl1-mesa-dri (or libosmesa6)."
    )
