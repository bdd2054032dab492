"""MuJoCo Playground in JAX. Arrays cross to torch by DLPack: nothing is copied through the host.

Playground's own autoreset overwrites the last observation of an episode and goes back to a cached first state. Every
environment would repeat one episode's beginning for ever. Here the bare environment is stepped, and what ended is reset
in full.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashsac.errors import FlashSACError, MissingExtra, RenderError
from flashsac.sims.base import autoreset, first_obs
from flashsac.sims.simulator import EnvRequest, Task
from flashsac.system.cache import users_cache, why_not_ours
from flashsac.system.gl import choose_gl_backend
from flashsac.types import EnvSpec, Obs, Step

FRAME_SIZE = 480
_GROUPS = {"actor": "state", "critic": "privileged_state"}
"""What Playground calls them, where there are several."""


def make_playground(task: Task, request: EnvRequest) -> PlaygroundVecEnv:
    """Environments by their name in Playground's registry."""
    if request.render:
        choose_gl_backend()
    # JAX would take three quarters of the GPU's memory at once, which the agent needs.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return PlaygroundVecEnv(task, request)


class PlaygroundVecEnv:
    """One jitted step of all environments; another jitted function makes fresh states, when some have ended."""

    def __init__(self, task: Task, request: EnvRequest):
        import jax

        self._jax, self._device = jax, _jax_device(request.device)
        env, config = _load(task, on_cpu=self._device.platform == "cpu")
        self._env, self._repeat = env, config.action_repeat
        self._render = request.render
        self._renderer: Any = None
        sizes = env.observation_size
        if isinstance(sizes, int):
            widths = {"actor": sizes}
        else:
            widths = {group: int(np.prod(sizes[name])) for group, name in _GROUPS.items() if name in sizes}
        self._limit: int = request.max_episode_steps or config.episode_length // config.action_repeat
        self.spec = EnvSpec(
            num_envs=request.num_envs,
            obs=widths,
            action_dim=env.action_size,
            # Playground's tasks take actions in [-1, 1], whatever the actuators' own ranges.
            action_low=(-1.0,) * env.action_size,
            action_high=(1.0,) * env.action_size,
            max_episode_steps=self._limit,
            device=torch.device(request.device if self._device.platform == "gpu" else "cpu"),
            fps=1.0 / (env.dt * config.action_repeat),
            can_save_state=True,
        )
        self._elapsed = torch.zeros(request.num_envs, dtype=torch.int64, device=self.spec.device)
        self._state: Any = None
        self._key: Any = None
        _keep_compiled_code(jax)
        self._begin = jax.jit(self._fresh_states)
        self._advance = jax.jit(self._repeated_step)
        self._choose = jax.jit(self._chosen_states)

    # --- traced by JAX ------------------------------------------------------------------------------------------------

    def _fresh_states(self, key: Any) -> tuple[Any, Any]:
        """Every environment in a new random state, and the key for the next time."""
        keys = self._jax.random.split(key, self.spec.num_envs + 1)
        return self._jax.vmap(self._env.reset)(keys[1:]), keys[0]

    def _repeated_step(self, state: Any, action: Any) -> Any:
        def once(carry: Any, _: None) -> tuple[Any, Any]:
            after = self._jax.vmap(self._env.step)(carry, action)
            return after, after.reward

        state, rewards = self._jax.lax.scan(once, state, (), self._repeat)
        return state.replace(reward=rewards.sum(0))

    def _chosen_states(self, ended: Any, fresh: Any, running: Any) -> Any:
        choose = lambda new, old: self._jax.numpy.where(ended.reshape(-1, *[1] * (old.ndim - 1)), new, old)
        return self._jax.tree.map(choose, fresh, running)

    # --- the contract -------------------------------------------------------------------------------------------------

    def reset(self, seed: int) -> Obs:
        # A key of plain numbers, which can be saved.
        key = self._jax.device_put(self._jax.random.PRNGKey(seed), self._device)
        self._state, self._key = self._begin(key)
        self._elapsed.zero_()
        return first_obs(self._split())

    def step(self, action: Tensor) -> Step:
        # A copy: JAX may still read it when the caller writes to its own.
        native = action.detach().to(self.spec.device, torch.float32, copy=True).clamp_(-1.0, 1.0).contiguous()
        self._state = self._advance(self._state, self._jax.dlpack.from_dlpack(native))
        self._elapsed += 1
        terminated = torch.from_dlpack(self._state.done) > 0
        truncated = ~terminated & (self._elapsed >= self._limit)
        reward = torch.from_dlpack(self._state.reward)
        return autoreset(self._split(), reward, terminated, truncated, {}, self._reset_envs)

    def _reset_envs(self, ids: Tensor) -> Obs:
        ended = torch.zeros(self.spec.num_envs, dtype=torch.bool, device=self.spec.device)
        ended[ids] = True
        # All are reset and most are thrown away: shapes that depend on who ended would compile again and again.
        fresh, self._key = self._begin(self._key)
        self._state = self._choose(self._jax.dlpack.from_dlpack(ended), fresh, self._state)
        self._elapsed[ids] = 0
        return {group: rows[ids] for group, rows in self._split().items()}

    def _split(self) -> Obs:
        obs = self._state.obs
        if not isinstance(obs, dict):
            return {"actor": torch.from_dlpack(obs)}
        return {group: torch.from_dlpack(obs[_GROUPS[group]]).flatten(1) for group in self.spec.obs}

    def render(self) -> np.ndarray:
        import mujoco

        if not self._render:
            raise RenderError("the environment was made without drawing: make it with render=True.")
        model = self._env.mj_model
        if self._renderer is None:
            self._renderer = mujoco.Renderer(model, FRAME_SIZE, FRAME_SIZE)
        simulated, drawn = self._state.data, mujoco.MjData(model)
        for name in ("qpos", "qvel", "mocap_pos", "mocap_quat"):
            getattr(drawn, name)[:] = np.asarray(getattr(simulated, name)[0])
        mujoco.mj_forward(model, drawn)
        self._renderer.update_scene(drawn, camera=0 if model.ncam else -1)
        return self._renderer.render()

    def state_dict(self) -> dict[str, Any]:
        parts = [np.asarray(part) for part in self._jax.tree.leaves(self._state)]
        return {"parts": parts, "key": np.asarray(self._key), "elapsed": self._elapsed.cpu().numpy()}

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        put = lambda value: self._jax.device_put(np.asarray(value), self._device)
        self._key = put(state["key"])
        shapes, _ = self._jax.eval_shape(self._fresh_states, self._key)
        wanted, structure = self._jax.tree.flatten(shapes)
        if [part.shape for part in state["parts"]] != [part.shape for part in wanted]:
            return False  # another version of the simulator
        self._state = structure.unflatten([put(part) for part in state["parts"]])
        self._elapsed = torch.from_numpy(np.array(state["elapsed"])).to(self.spec.device)
        return True

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
        self._state = None


def _jax_device(device: str) -> Any:
    import jax

    wanted = torch.device(device)
    if wanted.type != "cuda":
        return jax.devices("cpu")[0]
    try:
        return jax.devices("gpu")[wanted.index or 0]
    except RuntimeError as error:
        raise MissingExtra(
            f"--device {device}: this JAX sees no GPU ({error}). Install one that does (pip install 'jax[cuda12]<0.11'), or use "
            "--device cpu."
        ) from error


def _keep_compiled_code(jax: Any) -> None:
    """Compiling a humanoid takes minutes on a CPU; the next run finds it in the user's cache."""
    if jax.config.jax_compilation_cache_dir is None:
        cache = users_cache("jax")
        if cache is not None and why_not_ours(cache) is None:  # else it is compiled again
            jax.config.update("jax_compilation_cache_dir", str(cache))


def _load(task: Task, *, on_cpu: bool) -> tuple[Any, Any]:
    from mujoco_playground import registry

    config = registry.get_default_config(task.own_id)
    if on_cpu and "impl" in config:
        config.impl = "jax"  # many tasks ask for Warp, which wants a GPU
    try:
        return registry.load(task.own_id, config), config
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        raise FlashSACError(
            f"{task.full_name}: Playground fetches this robot's model from the internet (mujoco_menagerie, by git) when it is "
            f"loaded the first time. That failed: {error} Connect once, or simulate the robot with EnvPool, which brings the "
            'model. Install it with pip install "flashsac[envpool]", then add --env.engine envpool.'
        ) from error
