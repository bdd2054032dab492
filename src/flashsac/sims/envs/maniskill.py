"""ManiSkill in the paper's setting: state observations, joint position deltas, dense rewards, episodes that end by time
alone.

On a GPU, ManiSkill steps all environments together. Its CPU physics holds one environment, so there each gets a
process.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashsac.errors import FlashSACError, MissingExtra
from flashsac.sims.base import Unsaved, VecEnv, action_bounds, autoreset, first_obs, rescaled
from flashsac.sims.catalog import unknown_task
from flashsac.sims.simulator import EnvRequest, Task
from flashsac.sims.vector.sequential import Outcome, environment_seeds
from flashsac.sims.vector.workers import WorkerVecEnv
from flashsac.types import EnvSpec, Obs, Step

REWARDS = ("normalized_dense", "sparse")
"""What we ask for, the paper's first."""
NEEDS_RENDERER = ("PushT-v1",)
"""Tasks that look at what would be drawn even to simulate."""


def make_maniskill(task: Task, request: EnvRequest) -> VecEnv:
    if torch.device(request.device).type == "cuda":
        return BatchedManiSkill(task.own_id, request)
    return WorkerVecEnv(functools.partial(ManiSkillEnv, task.own_id, request), request.num_envs)


class ManiSkillEnv:
    """One ManiSkill environment on CPU physics, as a OneEnv."""

    def __init__(self, env_id: str, request: EnvRequest):
        self._env, self._limit = _create(env_id, request, num_envs=1)
        self.spec = _describe(self._env, env_id, self._limit)
        self._random = np.random.default_rng()
        self._elapsed = 0

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._elapsed = 0
        # Always with a seed: ManiSkill would otherwise draw from PyTorch's global generator.
        obs, _ = self._env.reset(seed=_episode_seed(self._random))
        return {"actor": obs[0].numpy()}

    def step(self, action: np.ndarray) -> Outcome:
        obs, reward, _, _, info = self._env.step(action)
        self._elapsed += 1
        numbers = {key: value.item() for key, value in info.items() if isinstance(value, Tensor) and value.numel() == 1}
        return {"actor": obs[0].numpy()}, reward.item(), False, self._elapsed == self._limit, numbers

    def rng_state(self) -> dict[str, Any]:
        return dict(self._random.bit_generator.state)

    def set_rng_state(self, state: dict[str, Any]) -> None:
        self._random.bit_generator.state = state

    def render(self) -> np.ndarray:
        return self._env.render()[0].numpy()

    def close(self) -> None:
        self._env.close()


class BatchedManiSkill(Unsaved):
    """All environments at once, on the device; not yet run on a GPU (docs/simulators/maniskill.md)."""

    def __init__(self, env_id: str, request: EnvRequest):
        from mani_skill.utils.registration import TimeLimitWrapper
        from mani_skill.vector.wrappers.gymnasium import ManiSkillVectorEnv

        env, limit = _create(env_id, request, num_envs=request.num_envs)
        # Without its automatic reset what it returns is the true final observation.
        self._env = ManiSkillVectorEnv(TimeLimitWrapper(env, limit), auto_reset=False, ignore_terminations=True)
        self.spec = _describe(env, env_id, limit)
        bounds = (self.spec.action_low, self.spec.action_high)
        self._low, self._high = (torch.tensor(bound, device=self.spec.device) for bound in bounds)
        self._random = np.random.default_rng()

    def reset(self, seed: int) -> Obs:
        self._random = np.random.default_rng(seed)
        obs, _ = self._env.reset(seed=environment_seeds(seed, self.spec.num_envs))
        return first_obs({"actor": obs})

    def step(self, action: Tensor) -> Step:
        obs, reward, terminated, truncated, info = self._env.step(rescaled(action, self._low, self._high))
        numbers = {"success": info["success"].cpu().numpy()} if "success" in info else {}
        return autoreset({"actor": obs}, reward, terminated, truncated, numbers, self._reset_envs)

    def _reset_envs(self, ids: Tensor) -> dict[str, Tensor]:
        obs, _ = self._env.reset(seed=_episode_seed(self._random), options={"env_idx": ids})
        return {"actor": obs[ids]}

    def render(self) -> np.ndarray:
        return self._env.render()[0].cpu().numpy()

    def close(self) -> None:
        self._env.close()


def _create(env_id: str, request: EnvRequest, num_envs: int) -> tuple[Any, int]:
    """The bare environment and its time limit, which Gymnasium's wrappers would otherwise keep to themselves."""
    import mani_skill.envs  # it registers the tasks
    from mani_skill.utils.registration import REGISTERED_ENVS
    from mani_skill.utils.wrappers.flatten import FlattenActionSpaceWrapper

    mani_skill.logger.setLevel(logging.ERROR)  # it warns of its own tasks' initial poses, for each environment
    registered = _registered(env_id, REGISTERED_ENVS)
    _require_assets(registered)
    device = torch.device(request.device)
    physics = "physx_cpu" if device.type == "cpu" else f"physx_cuda:{device.index or 0}"
    try:
        env = registered.make(
            num_envs=num_envs,
            obs_mode="state",
            control_mode="pd_joint_delta_pos",
            reward_mode=next(mode for mode in REWARDS if mode in registered.cls.SUPPORTED_REWARD_MODES),
            sim_backend=physics,
            render_backend=device.type if request.render or env_id in NEEDS_RENDERER else "none",
            render_mode="rgb_array" if request.render else None,
        )
    except RuntimeError as error:
        if "rendering device" not in str(error):
            raise
        raise MissingExtra(
            "ManiSkill needs a Vulkan device even when nothing is drawn, and found none. With a GPU, install its driver's Vulkan "
            "part. Without one, Mesa's software device does: mesa-vulkan-drivers 24.3 or newer (on Debian 12 from "
            "bookworm-backports: sh scripts/install_vulkan.sh; docs/simulators/maniskill.md)."
        ) from error
    if not hasattr(env.single_action_space, "low"):
        env = FlattenActionSpaceWrapper(env)  # two robots: a dict of actions
    return env, request.max_episode_steps or registered.max_episode_steps


def _registered(env_id: str, known: Mapping[str, Any]) -> Any:
    """ManiSkill's own entry for a task."""
    if env_id not in known:
        raise unknown_task(f"maniskill:{env_id}", known)
    offered = known[env_id].cls.SUPPORTED_REWARD_MODES
    if not set(REWARDS) & set(offered):
        raise FlashSACError(
            f"maniskill:{env_id} has no reward to learn from (it offers {', '.join(offered)}). Take a task with one: flashsac list "
            "maniskill."
        )
    return known[env_id]


def _require_assets(registered: Any) -> None:
    """ManiSkill would ask on the terminal whether to download, and nobody is there to answer."""
    from mani_skill.utils import assets

    for name in registered.asset_download_ids or []:
        group = name in assets.DATA_GROUPS
        sources = assets.expand_data_group_into_individual_data_source_ids(name) if group else [name]
        if not all(assets.is_data_source_downloaded(source) for source in sources):
            raise MissingExtra(
                f"maniskill:{registered.uid} needs models that do not come with the package ({name}). Download them with: "
                f"python -m mani_skill.utils.download_asset {registered.uid}"
            )


def _describe(env: Any, env_id: str, limit: int) -> EnvSpec:
    space = env.get_wrapper_attr("single_action_space")
    low, high = action_bounds(space.low, space.high, f"maniskill:{env_id}")
    return EnvSpec(
        num_envs=env.unwrapped.num_envs,
        obs={"actor": env.unwrapped.single_observation_space.shape[0]},
        action_dim=len(low),
        action_low=low,
        action_high=high,
        max_episode_steps=limit,
        device=env.unwrapped.device,
        fps=float(env.unwrapped.control_freq),
    )


def _episode_seed(random: np.random.Generator) -> int:
    return int(random.integers(2**31))
