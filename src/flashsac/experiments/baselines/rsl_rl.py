"""PPO by rsl-rl-lib.

The settings are those that MuJoCo Playground publishes for rsl_rl, with its discount and entropy bonus for humanoids.
The critic sees the privileged observations. The learning rate follows the KL divergence, as in mjlab and Isaac Lab.
"""

from __future__ import annotations

import contextlib
import io
from typing import Any

import torch
from rsl_rl.env import VecEnv as RslRlVecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict
from torch import Tensor

from flashsac.experiments.baselines.checkpoint import with_number_keys
from flashsac.experiments.baselines.source import Source
from flashsac.types import Obs

ALGORITHM = {
    "value_loss_coef": 1.0,
    "use_clipped_value_loss": True,
    "clip_param": 0.2,
    "entropy_coef": 0.005,
    "num_learning_epochs": 5,
    "num_mini_batches": 4,
    "learning_rate": 3e-4,
    "schedule": "adaptive",
    "gamma": 0.97,
    "lam": 0.95,
    "desired_kl": 0.01,
    "max_grad_norm": 1.0,
}
"""The library's own names."""
OTHERS = {"num_steps_per_env": 48, "init_std": 1.0, "hidden_dims": [512, 256, 128], "activation": "elu"}
"""48 steps of 128 environments are as many transitions as Playground's 24 of 256, which need more memory."""


class Environments(RslRlVecEnv):
    """Ours, as rsl_rl expects them: a TensorDict of groups, one flag for the end of an episode, time limits in
    extras."""

    cfg: dict = {}

    def __init__(self, source: Source, device: str = "cpu"):
        spec = source.spec
        self.source, self.device = source, device
        self.num_envs, self.num_actions = spec.num_envs, spec.action_dim
        self.max_episode_length = spec.max_episode_steps or 1000
        self.episode_length_buf = torch.zeros(spec.num_envs, dtype=torch.long, device=device)

    def get_observations(self) -> TensorDict:
        return as_tensordict(self.source.obs, self.device)

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict]:
        step = self.source.step(actions)
        # The outcome of an invalid step is unknown. Its reward counts as 0, and the value before it stands for the
        # rest.
        reward, cut = torch.where(step.valid, step.reward, 0.0), step.truncated | ~step.valid
        extras = {"time_outs": (cut & ~step.terminated).to(self.device)}
        over = (step.terminated | cut).to(self.device)
        return self.get_observations(), reward.to(self.device), over, extras


class PPO:
    """rsl_rl's runner, one iteration at a time."""

    def __init__(self, source: Source, kind: str, hyperparameters: dict[str, Any], seed: int, device: str = "cpu"):
        torch.manual_seed(seed)
        self._device = device
        settings = _settings(kind, hyperparameters)
        with contextlib.redirect_stdout(io.StringIO()):  # it draws its networks
            self._runner = OnPolicyRunner(Environments(source, device), settings, log_dir=None, device=device)
        self._updates_each = hyperparameters["num_learning_epochs"] * hyperparameters["num_mini_batches"]
        self._iterations = 0

    @classmethod
    def defaults(cls, kind: str) -> dict[str, Any]:
        return ALGORITHM | OTHERS

    @property
    def updates(self) -> int:
        return self._iterations * self._updates_each

    def advance(self) -> None:
        self._runner.learn(1)
        self._iterations += 1

    @torch.inference_mode()
    def act(self, obs: Obs) -> Tensor:
        action = self._runner.get_inference_policy()(as_tensordict(obs, self._device))
        return action.clamp(-1.0, 1.0).to(obs["actor"].device)

    def state_dict(self) -> dict[str, Any]:
        return {"networks": self._runner.alg.save(), "memory": {"iterations": self._iterations}}

    def load_state_dict(self, state: dict[str, Any], *, networks_only: bool = False) -> None:
        networks = state["networks"]
        optimizer = with_number_keys(networks["optimizer_state_dict"])
        self._runner.alg.load(networks | {"optimizer_state_dict": optimizer}, None, True)
        self._iterations = state["memory"]["iterations"]


def _settings(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """The library's own nested form."""
    sizes = {"hidden_dims": given["hidden_dims"], "activation": given["activation"]}
    network = {"class_name": "MLPModel", "obs_normalization": True} | sizes
    noise = {"class_name": "GaussianDistribution", "init_std": given["init_std"], "std_type": "scalar"}
    return {
        "num_steps_per_env": given["num_steps_per_env"],
        "save_interval": 10**9,
        "obs_groups": {"actor": ["actor"], "critic": ["critic"]},
        "actor": network | {"distribution_cfg": noise},
        "critic": network,
        "algorithm": {"class_name": kind, "rnd_cfg": None} | {name: given[name] for name in ALGORITHM},
    }


def as_tensordict(obs: Obs, device: str) -> TensorDict:
    """The groups of observations that actor and critic see."""
    groups = {"actor": obs["actor"].to(device), "critic": obs.get("critic", obs["actor"]).to(device)}
    return TensorDict(groups, batch_size=len(obs["actor"]), device=device)


LEARNER = PPO
