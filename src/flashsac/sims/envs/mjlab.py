"""mjlab: Isaac Lab's interface on MuJoCo Warp; Unitree and YAM robots come with the package.

mjlab leaves actions unbounded and scales them inside the task (joint offsets of a robot's own size). So [-1, 1] is
passed on as it is, like the paper does in Isaac Lab. A task that sets `clip_actions` gets [-clip_actions,
clip_actions].
"""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashsac.errors import FlashSACError, MissingExtra, RenderError, UnsupportedSpace
from flashsac.sims.base import autoreset, first_obs
from flashsac.sims.catalog import unknown_task
from flashsac.sims.simulator import EnvRequest, Task
from flashsac.types import EnvSpec, Obs, Step


def make_mjlab(task: Task, request: EnvRequest) -> MjlabVecEnv:
    """Environments by mjlab's own id, as mjlab's `train` command would make them."""
    _import_mjlab()
    import warp
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.tasks.registry import list_tasks, load_env_cfg, load_rl_cfg

    if task.own_id not in list_tasks():
        raise unknown_task(task.full_name, list_tasks())
    cfg, rl_cfg = load_env_cfg(task.own_id), load_rl_cfg(task.own_id)
    _check_trainable(task, cfg, rl_cfg)
    warp.config.log_level = warp.LOG_WARNING  # not a line for each of its hundred kernels
    cfg.scene.num_envs = request.num_envs
    cfg.seed = 0  # of what is drawn while building, such as terrains; `reset` brings the run's own
    if request.max_episode_steps is not None:
        # Half a step less, or rounding errors could make it one step more.
        cfg.episode_length_s = (request.max_episode_steps - 0.5) * cfg.sim.mujoco.timestep * cfg.decimation
    cfg.viewer.enable_shadows = cfg.viewer.enable_reflections = False  # a second a picture where the CPU draws
    with _OwnRandomness(request.device).swapped_in(), contextlib.redirect_stdout(io.StringIO()):
        env = ManagerBasedRlEnv(cfg, request.device, render_mode="rgb_array" if request.render else None)
    return MjlabVecEnv(env, rl_cfg.obs_groups, getattr(rl_cfg, "clip_actions", None))


def _check_trainable(task: Task, cfg: Any, rl_cfg: Any) -> None:
    """Tasks of other packages may be registered with less than mjlab's own, or want what we cannot ask for."""
    if "actor" not in (getattr(rl_cfg, "obs_groups", None) or {}):
        raise UnsupportedSpace(
            f"{task.full_name}: its rl_cfg names no obs_groups for the actor, so nobody knows what it may see. Hand over an "
            "environment instead: flashsac.train(RslRlVecEnvWrapper(env))."
        )
    if any(getattr(command, "motion_file", None) == "" for command in (cfg.commands or {}).values()):
        raise FlashSACError(
            f"{task.full_name} needs a motion file, which only mjlab's own command takes: train "
            f"{task.own_id.removesuffix('-FlashSAC')}-FlashSAC --env.commands.motion.motion-file FILE (docs/simulators/mjlab.md)."
        )


def _import_mjlab() -> None:
    """Its tasks register themselves. It loads a GL library although nothing is drawn yet."""
    try:
        import mjlab.tasks  # noqa: F401
    except (AttributeError, ImportError) as error:  # what PyOpenGL says where there is none
        raise MissingExtra(
            f"mjlab cannot be imported ({error}). If it is the GL library, on Debian and Ubuntu: apt-get install libegl1 "
            "libgl1-mesa-dri. Or train without pictures: set MUJOCO_GL=disabled in the environment, and --no-video."
        ) from error


class MjlabVecEnv:
    """The adapter of a ManagerBasedRlEnv, which no longer resets by itself: that would throw the final observations
    away."""

    def __init__(self, env: Any, obs_groups: Mapping[str, Sequence[str]], clip_actions: float | None = None):
        self._env, self.base = env, env.unwrapped
        self.base.cfg.auto_reset = False
        self._groups = {"actor": tuple(obs_groups["actor"]), "critic": tuple(obs_groups.get("critic", ()))}
        if self._groups["critic"] in ((), self._groups["actor"]):
            del self._groups["critic"]
        self._bound = 1.0 if clip_actions is None else float(clip_actions)
        self._steps_before, self._levels_before = 0, _terrain_levels(self.base)
        self._randomness = _OwnRandomness(self.base.device)
        action_dim = self.base.action_manager.total_action_dim
        self.spec = EnvSpec(
            num_envs=self.base.num_envs,
            obs={group: sum(map(self._width, parts)) for group, parts in self._groups.items()},
            action_dim=action_dim,
            action_low=(-self._bound,) * action_dim,
            action_high=(self._bound,) * action_dim,
            max_episode_steps=self.base.max_episode_length,
            device=torch.device(self.base.device),
            fps=1.0 / self.base.step_dt,
        )

    def _width(self, group: str) -> int:
        shape = self.base.observation_manager.group_obs_dim[group]
        if len(shape) != 1:
            raise UnsupportedSpace(
                f"mjlab's observation group '{group}' has shape {shape}; this version trains from state vectors. Use a task without "
                "cameras, and groups whose terms are concatenated."
            )
        return int(shape[0])

    def reset(self, seed: int) -> Obs:
        from mjlab.utils.random import seed_rng

        with self._randomness.swapped_in():
            seed_rng(seed)
            self._forget()
            events = self.base.event_manager
            if "startup" in events.available_modes:
                events.apply(mode="startup")  # friction and the like: drawn once an environment, now from this seed
            with _levels_held(self.base.scene.terrain):
                obs, _ = self._env.reset()
        return first_obs(self._split(obs))

    def _forget(self) -> None:
        """What mjlab keeps over a reset: the same seed must give the same episodes, however long the environments have
        been used."""
        from mjlab.managers import RewardManager

        cfg = self.base.cfg
        # Curricula change its weights, and some terms remember the episode before (how high a foot was lifted).
        self.base.reward_manager = RewardManager(cfg.rewards, self.base, scale_by_dt=cfg.scale_rewards_by_dt)
        self.base.setup_manager_visualizers()
        self.base.common_step_counter = self._steps_before  # what curricula go by
        if self._levels_before is not None:
            terrain = self.base.scene.terrain
            terrain.terrain_levels.copy_(self._levels_before)
            everywhere = torch.arange(self.spec.num_envs, device=self.spec.device)
            unmoved = torch.zeros_like(everywhere, dtype=torch.bool)
            terrain.update_env_origins(everywhere, unmoved, unmoved)

    def step(self, action: Tensor) -> Step:
        native = action.to(self.spec.device).clamp(-1.0, 1.0) * self._bound
        with self._randomness.swapped_in():
            obs, reward, terminated, timed_out, _ = self._env.step(native)
            if self.base.cfg.is_finite_horizon:  # the task says that nothing comes after its time limit
                terminated, timed_out = terminated | timed_out, torch.zeros_like(timed_out)
            return autoreset(self._split(obs), reward, terminated, timed_out, self._info(), self._reset_envs)

    def _reset_envs(self, ids: Tensor) -> dict[str, Tensor]:
        obs, _ = self._env.reset(env_ids=ids)
        return {group: rows[ids] for group, rows in self._split(obs).items()}

    def _split(self, obs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {group: torch.cat([obs[part] for part in parts], dim=1) for group, parts in self._groups.items()}

    def _info(self) -> dict[str, Tensor]:
        rewards = self.base.reward_manager
        info = dict(zip(rewards.active_terms, rewards._step_reward.clone().unbind(1), strict=True))
        commands = self.base.command_manager
        for name in commands.active_terms:
            metrics = commands.get_term(name).metrics
            if "episode_success" in metrics:
                info["success"] = metrics["episode_success"].clone()
        return info

    def render(self) -> np.ndarray:
        frame = self._env.render()
        if frame is None:
            raise RenderError("this mjlab environment was made without a renderer: make it with render=True.")
        return np.asarray(frame)

    def state_dict(self) -> dict[str, Any]:
        """The state of the curricula: all that can be brought back."""
        levels = _terrain_levels(self.base)
        return {"steps": int(self.base.common_step_counter)} | ({} if levels is None else {"terrain_levels": levels})

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Episodes cannot go on, but those of the next reset begin where the curricula stood."""
        self._steps_before = state["steps"]
        if self._levels_before is not None:
            self._levels_before = torch.as_tensor(state["terrain_levels"]).to(self._levels_before)
        return False

    def close(self) -> None:
        self._env.close()


def _terrain_levels(base: Any) -> Tensor | None:
    """How hard the ground is on which each environment begins; None where it is the same everywhere."""
    terrain = base.scene.terrain
    if terrain is None or terrain.terrain_origins is None:
        return None
    return terrain.terrain_levels.clone()


@contextlib.contextmanager
def _levels_held(terrain: Any) -> Iterator[None]:
    """No episode ends in a first reset, but a curriculum would judge where the robots happen to stand, and move them up
    or down."""
    if terrain is None:
        yield
        return
    terrain.update_env_origins = lambda *_: None
    try:
        yield
    finally:
        del terrain.update_env_origins


class _OwnRandomness:
    """mjlab draws from the process's global generators. Here it gets a state of its own. An evaluation must not rewind
    the episodes of training, and seeding a simulator must not seed the user's program."""

    def __init__(self, device: str | torch.device):
        self._cuda = torch.device(device) if torch.device(device).type == "cuda" else None
        self._state: tuple | None = None

    @contextlib.contextmanager
    def swapped_in(self) -> Iterator[None]:
        outside = self._read()
        if self._state is not None:
            self._write(self._state)
        try:
            yield
        finally:
            self._state = self._read()
            self._write(outside)

    def _read(self) -> tuple:
        cuda = None if self._cuda is None else torch.cuda.get_rng_state(self._cuda)
        return torch.get_rng_state(), np.random.get_state(), random.getstate(), cuda

    def _write(self, state: tuple) -> None:
        torch.set_rng_state(state[0])
        np.random.set_state(state[1])
        random.setstate(state[2])
        if self._cuda is not None:
            torch.cuda.set_rng_state(state[3], self._cuda)
