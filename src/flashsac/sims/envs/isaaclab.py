"""Isaac Lab: thousands of environments on the GPU, manager-based or direct. One environment per process.

Isaac Lab resets what ended inside `step` and returns the observations after that reset. In ManagerBasedRLEnv.step and
DirectRLEnv.step, dones and rewards come first, then `_reset_idx` of what ended, then observations. The last observation
of an episode must therefore be taken between the dones and `_reset_idx`. Versions whose config has `compute_final_obs`
take it themselves; in older ones we do.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashsac.errors import FlashSACError, RenderError, UnsupportedSpace
from flashsac.sims.base import Unsaved, autoreset, first_obs, rescaled
from flashsac.sims.catalog import unknown_task
from flashsac.sims.simulator import EnvRequest, Task
from flashsac.types import EnvSpec, Obs, Step

_GROUPS = {"actor": "policy", "critic": "critic"}


def make_isaaclab(task: Task, request: EnvRequest) -> IsaacLabVecEnv:
    """Isaac Lab by the ids that isaaclab_tasks registers, with the task's own configuration."""
    _launch(request.render)
    import gymnasium
    import isaaclab_tasks  # noqa: F401 (registers the tasks)
    from isaaclab.sim import SimulationContext
    from isaaclab_tasks.utils import parse_env_cfg

    if SimulationContext.instance() is not None:
        raise FlashSACError(
            "Isaac Lab allows one environment in a process, and this one has its own already. Close that one first, or start "
            "another process (training evaluates in one by itself)."
        )
    if task.own_id not in gymnasium.registry:
        raise unknown_task(task.full_name, gymnasium.registry)
    config = parse_env_cfg(task.own_id, device=request.device, num_envs=request.num_envs)
    config.seed = 0  # of what is drawn while building: terrains, startup randomisation; `reset` brings the run's own
    if hasattr(config, "compute_final_obs"):
        config.compute_final_obs = True
    if request.max_episode_steps is not None:
        # Isaac Lab rounds up to whole steps; half a step less is safe from rounding errors.
        config.episode_length_s = (request.max_episode_steps - 0.5) * config.sim.dt * config.decimation
    env = gymnasium.make(task.own_id, cfg=config, render_mode="rgb_array" if request.render else None)
    # The paper's Isaac Lab tasks have no privileged critic, even where a version offers that group; of others nobody
    # knows.
    return IsaacLabVecEnv(env, privileged=task.obs is None or task.critic_obs is not None)


@functools.cache
def _launch(cameras: bool) -> Any:
    """Start Isaac Sim, without which most of Isaac Lab cannot be imported. It is never closed: that ends the
    process."""
    from isaaclab.app import AppLauncher

    with _no_arguments():
        return AppLauncher(headless=True, enable_cameras=cameras)


@contextlib.contextmanager
def _no_arguments() -> Iterator[None]:
    """Isaac Sim reads sys.argv, but those are arguments to us."""
    ours, sys.argv = sys.argv, sys.argv[:1]
    try:
        yield
    finally:
        sys.argv = ours


class IsaacLabVecEnv(Unsaved):
    """Any ManagerBasedRLEnv or DirectRLEnv, wrapped or not. `privileged`: show the group "critic", if there is one."""

    def __init__(self, env: Any, *, privileged: bool = True):
        self._env, self.lab = env, env.unwrapped
        lab = self.lab
        if not hasattr(lab, "single_observation_space"):
            raise UnsupportedSpace(
                f"{type(lab).__name__} has several agents, and FlashSAC trains one. Make one of them with Isaac Lab's "
                "multi_agent_to_single_agent, in a function of your own that returns IsaacLabVecEnv(env)."
            )
        spaces = lab.single_observation_space.spaces
        shown = ("actor", "critic") if privileged else ("actor",)
        self._groups = {group: _GROUPS[group] for group in shown if _GROUPS[group] in spaces}
        box = lab.single_action_space
        # Most tasks declare no bounds; their action terms scale, and -1 and 1 are meant to be large.
        low = np.where(np.isfinite(box.low), box.low, -1.0).astype(np.float64).ravel()
        high = np.where(np.isfinite(box.high), box.high, 1.0).astype(np.float64).ravel()
        self.spec = EnvSpec(
            num_envs=lab.num_envs,
            obs={group: _width(spaces[name], name) for group, name in self._groups.items()},
            action_dim=len(low),
            action_low=tuple(low.tolist()),
            action_high=tuple(high.tolist()),
            max_episode_steps=int(lab.max_episode_length),
            device=torch.device(lab.device),
            fps=1.0 / lab.step_dt,
        )
        self._low, self._high = (torch.tensor(x, dtype=torch.float32, device=lab.device) for x in (low, high))
        # A task of fixed length ends for good when its time is up; elsewhere the limit only cuts.
        self._time_up_is_the_end = bool(getattr(lab.cfg, "is_finite_horizon", False))
        self._stepping = False
        self._last: Any = None
        self._lab_keeps_last = bool(getattr(lab.cfg, "compute_final_obs", False))
        if not self._lab_keeps_last:
            self._look_before_resets()

    def reset(self, seed: int) -> Obs:
        obs, _ = self._env.reset(seed=seed)
        self._last = None
        return first_obs(self._flat(obs))

    def step(self, action: Tensor) -> Step:
        native = rescaled(action, self._low, self._high)
        self._stepping = True
        try:
            obs, reward, terminated, timed_out, extras = self._env.step(native)
        finally:
            self._stepping = False
        ended = terminated | timed_out
        if self._time_up_is_the_end:
            terminated = ended
        after = self._flat(obs)
        if self._lab_keeps_last and "final_obs" in extras:
            self._last = self._flat(extras["final_obs"])
        final = after
        if self._last is not None:  # of all environments; stale, but not looked at, where no episode has ended
            final = {group: torch.where(ended[:, None], self._last[group], rows) for group, rows in after.items()}

        def reset_envs(ids: Tensor) -> Obs:
            broken = ids[~ended[ids]]  # NaN, but for Isaac Lab the episode goes on
            rows = self._reset_broken(broken) if len(broken) else after
            return {group: rows[group][ids] for group in rows}

        info = {"log": dict(extras.get("log", {}))}
        return autoreset(final, reward, terminated, timed_out, info, reset_envs)

    def _look_before_resets(self) -> None:
        """Keep the observations from just before `_reset_idx`, which `step` calls when dones and rewards are known."""
        lab, reset_idx = self.lab, self.lab._reset_idx
        if hasattr(lab, "observation_manager") and _looking_counts_as_a_step(lab.observation_manager):
            raise FlashSACError(
                "this version of Isaac Lab cannot show the last observation of an episode for a task with observation "
                "history. Looking at it would count as a step. Update to a version with compute_final_obs, or set the "
                "history_length of the observation terms to 0."
            )

        def look_then_reset(*arguments: Any, **options: Any) -> Any:
            if self._stepping:
                self._last = {group: rows.clone() for group, rows in self._flat(self._observe()).items()}
            return reset_idx(*arguments, **options)

        lab._reset_idx = look_then_reset

    def _observe(self) -> Mapping[str, Any]:
        lab = self.lab
        if hasattr(lab, "observation_manager"):
            return lab.observation_manager.compute()
        obs = lab._get_observations()
        if lab.cfg.observation_noise_model:
            obs["policy"] = lab._observation_noise_model(obs["policy"])  # as DirectRLEnv.step does
        return obs

    def _reset_broken(self, ids: Tensor) -> Obs:
        """The order of Isaac Lab's own `reset`, for some."""
        self.lab._reset_idx(ids.int())
        self.lab.scene.write_data_to_sim()
        self.lab.sim.forward()
        return self._flat(self._observe())

    def _flat(self, obs: Mapping[str, Any]) -> Obs:
        return {group: _joined(obs[name]) for group, name in self._groups.items()}

    def render(self) -> np.ndarray:
        frame = self._env.render()
        if frame is None:
            raise RenderError("the environment was made without drawing: make it with render=True.")
        return np.asarray(frame)

    def close(self) -> None:
        self._env.close()


def _looking_counts_as_a_step(manager: Any) -> bool:
    """Older observation managers add to the history whenever they compute."""
    has_history = any(getattr(manager, "_group_obs_term_history_buffer", {}).values())
    return has_history and "update_history" not in inspect.signature(manager.compute).parameters


def _joined(group: Any) -> Tensor:
    """A group is one tensor, or its terms by name: side by side, in the simulator's order."""
    if isinstance(group, Mapping):
        return torch.cat([_joined(term) for term in group.values()], 1)
    return group.flatten(1)


def _width(space: Any, name: str) -> int:
    parts = getattr(space, "spaces", None)
    if parts is not None:
        return sum(_width(part, f"{name}/{key}") for key, part in parts.items())
    if len(space.shape) > 2:
        raise UnsupportedSpace(
            f"observation '{name}' is an image {space.shape}; this version trains from state vectors. Use the task's state "
            "observations."
        )
    return int(np.prod(space.shape))
