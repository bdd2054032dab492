"""Genesis: our own tasks on its physics engine, all environments in one scene, on the CPU or a GPU.

Genesis ships robots but no tasks; ours are in flashsac.tasks.genesis. Environments are reset by us, after
rewards and observations are computed, so that final observations are true.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashsac.errors import FlashSACError, RenderError
from flashsac.sims.base import autoreset, first_obs
from flashsac.sims.catalog import unknown_task
from flashsac.sims.simulator import EnvRequest, Task
from flashsac.tasks.genesis import go2 as genesis_go2
from flashsac.tasks.genesis import panda as genesis_panda
from flashsac.tasks.genesis.task import GenesisTask, Sampler
from flashsac.types import EnvSpec, Obs, Step

TASKS: dict[str, Callable[..., GenesisTask]] = {
    "go2-walk_easy": genesis_go2.walk_easy,
    "go2-walk": genesis_go2.walk,
    "panda-grasp": genesis_panda.PandaGrasp,
}
SETTINGS = {"go2-walk_easy": {"start": genesis_go2.STARTS}, "go2-walk": {"start": genesis_go2.STARTS}}
"""What `--env.options` can set, and to what."""
PICTURE = (640, 480)


def make_genesis(task: Task, request: EnvRequest) -> GenesisVecEnv:
    if task.own_id not in TASKS:
        raise unknown_task(task.full_name)
    return GenesisVecEnv(TASKS[task.own_id](**_settings(task, request.simulator_options)), request)


def _settings(task: Task, given: tuple[str, ...]) -> dict[str, str]:
    known, chosen = SETTINGS.get(task.own_id, {}), dict(setting.partition("=")[::2] for setting in given)
    for name, value in chosen.items():
        if value not in known.get(name, ()):
            choices = " or ".join(f"{name}={value}" for name, values in known.items() for value in values)
            raise FlashSACError(f"--env.options {name}={value}: {task.full_name} takes {choices or 'none'}.")
    return chosen


class GenesisVecEnv:
    """Any task of ours in a scene of its own. Several may live in one process."""

    def __init__(self, task: GenesisTask, request: EnvRequest):
        gs = initialised(request.device)
        self.task, self._num_envs, self._refusal = task, request.num_envs, gs.GenesisException
        self._max_steps = request.max_episode_steps or round(task.episode_seconds / task.control_seconds)
        self._limits = torch.tensor(task.action_limits, device=gs.device)
        self.spec = EnvSpec(
            num_envs=request.num_envs,
            obs=task.obs,
            action_dim=len(task.action_limits),
            action_low=tuple(-limit for limit in task.action_limits),
            action_high=task.action_limits,
            max_episode_steps=self._max_steps,
            device=gs.device,
            fps=1.0 / task.control_seconds,
            can_save_state=True,
        )
        self._scene = gs.Scene(
            sim_options=gs.options.SimOptions(dt=task.control_seconds, substeps=task.substeps),
            rigid_options=gs.options.RigidOptions(**task.physics),
            vis_options=gs.options.VisOptions(rendered_envs_idx=[0], show_world_frame=False),
            show_viewer=False,
        )
        task.add_to(self._scene)
        self._camera = self._scene.add_camera(res=PICTURE, fov=40) if request.render else None
        self._scene.build(n_envs=request.num_envs)
        task.built(request.num_envs, gs.device)
        self._draw = Sampler(gs.device)
        self._elapsed = torch.zeros(request.num_envs, dtype=torch.int64, device=gs.device)

    def reset(self, seed: int) -> Obs:
        self._draw.generator.manual_seed(seed)
        return first_obs(self._reset_envs(torch.arange(self._num_envs, device=self.spec.device)))

    def step(self, action: Tensor) -> Step:
        self.task.act(action.to(self.spec.device).clamp(-1.0, 1.0) * self._limits)
        self._simulate()
        self._elapsed += 1
        obs, reward, terminated, info = self.task.outcome(self._elapsed, self._draw)
        # Genesis would raise for all environments when one diverges; as NaN it is dropped and reset by itself.
        diverged = self._scene.rigid_solver.get_error_envs_mask()
        reward = reward.masked_fill(diverged, float("nan"))
        truncated = self._elapsed >= self._max_steps
        if truncated.any() and diverged.any():  # or simulating on, in the trial, would raise after all
            self._reset_envs(diverged.nonzero()[:, 0])
        if truncated.any() and (success := self.task.trial(self._simulate)) is not None:
            # The trial moves every robot, so the episodes of all are over, also of those reset early after diverging.
            truncated = torch.ones_like(truncated)
            info = {**info, "success": success.cpu()}
        return autoreset(obs, reward, terminated, truncated, info, self._reset_envs)

    def _simulate(self) -> None:
        self._scene.step(update_visualizer=self._camera is not None)

    def _reset_envs(self, ids: Tensor) -> Obs:
        self._scene.reset(envs_idx=ids)
        self.task.reset(ids, self._draw)
        self._elapsed[ids] = 0
        return {group: rows[ids] for group, rows in self.task.observe().items()}

    def render(self) -> np.ndarray:
        if self._camera is None:
            raise RenderError("these environments were made without a camera: make them with render=True.")
        focus = self.task.focus().cpu().numpy()
        self._camera.set_pose(pos=focus + np.asarray(self.task.camera_offset), lookat=focus, up=(0.0, 0.0, 1.0))
        return np.asarray(self._camera.render()[0], np.uint8)

    def state_dict(self) -> dict[str, Any]:
        return {
            "solvers": {
                name: {key: torch.as_tensor(rows) for key, rows in solver.arrays.items()}
                for name, solver in self._record().sim.solvers.items()
            },
            "task": self.task.state_dict(),
            "elapsed": self._elapsed.clone(),
            "random": self._draw.generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        record = self._record()
        for name, solver in record.sim.solvers.items():
            solver.arrays = state["solvers"][name]
        try:
            self._scene.__setstate__(record)
        except self._refusal:
            return False  # saved by another version of Genesis
        self.task.load_state_dict(state["task"])
        self._elapsed.copy_(state["elapsed"])
        self._draw.generator.set_state(state["random"])
        return True

    def _record(self) -> Any:
        """Genesis' own record of the scene; the solvers' arrays in it are all that changes from step to step."""
        return self._scene.__getstate__()

    def close(self) -> None:
        self._scene.destroy()


def initialised(device: str) -> Any:
    """The genesis module, initialised. That can be done once in a process, and only for one device."""
    if "genesis" not in sys.modules:
        # It imports pip, after which Python < 3.12 can no longer import setuptools, without which torch.compile fails.
        with contextlib.suppress(ImportError):
            import setuptools  # noqa: F401
    import genesis as gs

    if not gs._initialized:
        gs.init(backend=gs.cpu if device == "cpu" else gs.gpu, logging_level="error")
    if gs.device.type != torch.device(device).type:
        raise FlashSACError(
            f"Genesis runs on {gs.device.type} in this process, so it cannot run on {device}. Use one device for training and "
            f"evaluation (--device {gs.device.type}), or see that Genesis finds the other."
        )
    return gs
