"""SAC and TD3 by Stable-Baselines3, and the bridge that sbx shares: our environments as its VecEnv."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from flashsac.experiments.baselines.checkpoint import with_number_keys
from flashsac.experiments.baselines.source import Source
from flashsac.types import Obs

OURS = {
    *("self", "env", "seed", "device", "verbose", "tensorboard_log", "stats_window_size", "_init_setup_model"),
    *("replay_buffer_class", "replay_buffer_kwargs", "optimize_memory_usage", "n_steps", "param_resets"),
}
"""Arguments of the library's classes that the bridge sets, or that it cannot carry over to a resumed run."""
COUNTERS = ("num_timesteps", "_n_updates", "_episode_num")
ROWS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
VALID = "flashsac.valid"
"""The key in an info that tells whether a transition has a known outcome."""


class Environments(VecEnv):
    """Ours, as Stable-Baselines3 expects them: NumPy arrays, and the true final observation in the info."""

    def __init__(self, source: Source):
        spec = source.spec
        self.source = source
        self._action = torch.zeros(0)
        obs = spaces.Box(-np.inf, np.inf, (spec.obs["actor"],), np.float32)
        super().__init__(spec.num_envs, obs, spaces.Box(-1.0, 1.0, (spec.action_dim,), np.float32))

    def reset(self) -> np.ndarray:
        """The observations to act on. The runner has reset the environments, with its own seed."""
        return as_array(self.source.obs)

    def step_async(self, actions: np.ndarray) -> None:
        self._action = torch.from_numpy(np.asarray(actions, np.float32))

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        step = self.source.step(self._action)
        valid, terminated, truncated = (x.cpu().numpy() for x in (step.valid, step.terminated, step.truncated))
        over = terminated | truncated | ~valid
        infos: list[dict[str, Any]] = [{} for _ in over]
        final = as_array(step.final_obs) if over.any() else None
        for i in np.flatnonzero(over):
            infos[i] = {VALID: bool(valid[i]), "TimeLimit.truncated": bool(truncated[i] and not terminated[i])}
            if valid[i] and final is not None:
                infos[i]["terminal_observation"] = final[i]
        reward = torch.where(step.valid, step.reward, 0.0).cpu().numpy()
        return as_array(step.obs), reward, over, infos

    def close(self) -> None:
        """Nothing: whoever made the environments closes them."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name == "render_mode":
            return [None] * self.num_envs
        raise AttributeError(attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise AttributeError(attr_name)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise AttributeError(method_name)

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


class ValidReplay(ReplayBuffer):
    """A replay buffer without the transitions whose outcome is unknown.

    A row has one transition of every environment, so another one of the same step takes the place of such a
    transition. Where there is none, the whole row is left out."""

    def add(self, obs: Any, next_obs: Any, action: Any, reward: Any, done: Any, infos: list[dict[str, Any]]) -> None:
        rows = np.arange(len(infos))
        valid = np.array([info.get(VALID, True) for info in infos])
        if not valid.any():
            return
        rows[~valid] = np.flatnonzero(valid)[0]
        super().add(obs[rows], next_obs[rows], action[rows], reward[rows], done[rows], [infos[i] for i in rows])


class OffPolicy:
    """An off-policy algorithm of Stable-Baselines3, one vectorised step at a time."""

    library: Any = stable_baselines3

    def __init__(self, source: Source, kind: str, hyperparameters: dict[str, Any], seed: int, device: str = "cpu"):
        given, noise = dict(hyperparameters), hyperparameters["action_noise"]
        size = source.spec.action_dim
        given["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, noise)) if noise else None
        given["policy_kwargs"] = dict(given["policy_kwargs"])  # the library writes into it
        self.model: Any = getattr(self.library, kind)(
            env=Environments(source), seed=seed, device=device, replay_buffer_class=ValidReplay, **given
        )
        self.model.set_logger(Logger(folder=None, output_formats=[]))

    @classmethod
    def defaults(cls, kind: str) -> dict[str, Any]:
        arguments = inspect.signature(getattr(cls.library, kind).__init__).parameters.values()
        values = {one.name: one.default for one in arguments if one.name not in OURS}
        return values | {"policy": "MlpPolicy", "policy_kwargs": {}}

    @property
    def updates(self) -> int:
        return self.model._n_updates

    def advance(self) -> None:
        self.model.learn(1, log_interval=None, reset_num_timesteps=False)

    def act(self, obs: Obs) -> Tensor:
        action, _ = self.model.predict(as_array(obs), deterministic=True)
        return torch.from_numpy(np.asarray(action, np.float32)).to(obs["actor"].device)

    def state_dict(self) -> dict[str, Any]:
        model, buffer = self.model, self.model.replay_buffer
        end = buffer.buffer_size if buffer.full else buffer.pos
        replay: dict[str, Any] = {name: getattr(buffer, name)[:end] for name in ROWS}
        counters = {name: getattr(model, name) for name in COUNTERS}
        memory = {"counters": counters, "replay": replay, "position": buffer.pos, "full": buffer.full}
        return {"networks": self._networks(), "memory": memory}

    def load_state_dict(self, state: dict[str, Any], *, networks_only: bool = False) -> None:
        self._load_networks(state["networks"])
        if networks_only:
            return
        buffer, memory = self.model.replay_buffer, state["memory"]
        for name in ROWS:
            rows = memory["replay"][name]
            getattr(buffer, name)[: len(rows)] = rows
        buffer.pos, buffer.full = memory["position"], memory["full"]
        for name in COUNTERS:
            setattr(self.model, name, memory["counters"][name])

    def _networks(self) -> dict[str, Any]:
        """Parameters and states of the optimizers, by the library's own names."""
        alone = {name: getattr(self.model, name) for name in self._tensor_names()}
        return {"modules": self.model.get_parameters(), "tensors": alone}

    def _load_networks(self, saved: dict[str, Any]) -> None:
        modules = {
            name: with_number_keys(state) if "param_groups" in state else state
            for name, state in saved["modules"].items()
        }
        self.model.set_parameters(modules, exact_match=True, device=self.model.device)
        for name in self._tensor_names():
            getattr(self.model, name).data.copy_(saved["tensors"][name])

    def _tensor_names(self) -> list[str]:
        """Tensors that belong to no module: the entropy coefficient."""
        return self.model._get_torch_save_params()[1]


def as_array(obs: Obs) -> np.ndarray:
    """The actor's observations."""
    return obs["actor"].cpu().numpy()


LEARNER = OffPolicy
