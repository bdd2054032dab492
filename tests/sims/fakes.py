"""Isaac Lab as its documentation and sources describe it, with a point mass for a robot and every trap that an adapter meets.

- Nothing but `isaaclab.app` can be imported before AppLauncher has run; one environment in a process.
- `step` = physics, dones, rewards, `_reset_idx` of what ended, observations: those of the *next* episode where one has ended.
- Rewards, dones and (here) observations are written into the same buffers every step; `extras` is one dict for ever.
- The last observation comes in extras["final_obs"] in new versions that were asked to, for all environments, and stays there when
  it is old; in older versions it does not come at all.
- Seeds go to torch's global generator. The ground is drawn while the environment is built; `cfg.seed` decides it, if there is one.
- Action spaces have no bounds. Groups are tensors, or dicts of terms.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor

WORLD = SimpleNamespace(launched=0, arguments=None, context=None, new_version=True, history=False, args_of_compute=True)
"""What the installed Isaac Lab is like, and what has happened to it."""

PACKAGES = {
    "isaaclab/__init__.py": "",
    "isaaclab/app.py": "from tests.sims.fakes import AppLauncher\n",
    "isaaclab/sim.py": "from tests.sims.fakes import SimulationContext\n",
    "isaaclab_tasks/__init__.py": "from tests.sims import fakes\nfakes.import_tasks()\n",
    "isaaclab_tasks/utils.py": "from tests.sims.fakes import parse_env_cfg\n",
}
TASKS = {"Isaac-Velocity-Flat-Anymal-C-v0": "FakeManagerBased", "Isaac-Repose-Cube-Allegro-Direct-v0": "FakeDirect"}
UNLISTED = {"Isaac-Velocity-Flat-Unitree-Go2-v0": "FakeManagerBased"}
"""One of the many that are not in tasks.csv."""


class AppLauncher:
    def __init__(self, headless: bool = False, enable_cameras: bool = False):
        import sys

        assert headless, "no display here"
        WORLD.launched, WORLD.arguments = WORLD.launched + 1, list(sys.argv)
        self.app = SimpleNamespace(close=lambda: exit("the simulation app ends the process"))


class SimulationContext:
    def __init__(self):
        if WORLD.context is not None:
            raise RuntimeError("Simulation context already exists. Cannot create a new one.")
        WORLD.context = self

    @classmethod
    def instance(cls):
        return WORLD.context

    def forward(self) -> None: ...


def import_tasks() -> None:
    if not WORLD.launched:
        raise ModuleNotFoundError("No module named 'omni.kit'")
    for name, kind in (TASKS | UNLISTED).items():
        gymnasium.register(name, entry_point=f"tests.sims.fakes:{kind}", disable_env_checker=True)


def parse_env_cfg(task: str, device: str = "cuda:0", num_envs: int | None = None) -> SimpleNamespace:
    gymnasium.spec(task)
    config = SimpleNamespace(
        sim=SimpleNamespace(dt=0.005, device=device),
        decimation=4,
        episode_length_s=20.0,
        scene=SimpleNamespace(num_envs=num_envs),
        is_finite_horizon=False,
        observation_noise_model=None,
        seed=None,
    )
    if WORLD.new_version:
        config.compute_final_obs = False
    return config


class FakeLabEnv(gymnasium.Env):
    """What both kinds have in common; `width` is that of the policy's observation."""

    metadata = {"render_modes": [None, "human", "rgb_array"]}
    width: int
    actions: int

    def __init__(self, cfg: Any, render_mode: str | None = None):
        self.cfg, self.render_mode = cfg, render_mode
        if cfg.seed is not None:
            torch.manual_seed(cfg.seed)
        self.terrain = torch.rand(5)
        self.sim, self.num_envs, self.device = SimulationContext(), cfg.scene.num_envs, cfg.sim.device
        self.scene = SimpleNamespace(write_data_to_sim=lambda: None)
        self.step_dt = cfg.sim.dt * cfg.decimation
        self.max_episode_length = math.ceil(cfg.episode_length_s / self.step_dt)
        self.single_action_space = Box(-np.inf, np.inf, (self.actions,))
        self.position = torch.zeros(self.num_envs, self.actions)
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.reward_buf = torch.zeros(self.num_envs)
        self.reset_terminated, self.reset_time_outs = (torch.zeros(self.num_envs, dtype=torch.bool) for _ in range(2))
        self.extras: dict[str, Any] = {}
        self.broken: list[int] = []

    def reset(self, seed=None, options=None):
        if seed is not None:
            torch.manual_seed(seed)
        self._reset_idx(torch.arange(self.num_envs))
        return self._observations(), self.extras

    def step(self, action: Tensor):
        self.received = action.clone()
        self.position += 0.1 * action
        self.position[self.broken] = float("nan")
        self.broken = []
        self.episode_length_buf += 1
        self.reset_terminated[:] = self.position[:, 0].abs() > 0.5
        self.reset_time_outs[:] = self.episode_length_buf >= self.max_episode_length
        self.reward_buf[:] = -self.position.square().sum(1)
        ids = (self.reset_terminated | self.reset_time_outs).nonzero().squeeze(-1).int()
        if len(ids) > 0:
            if getattr(self.cfg, "compute_final_obs", False):
                self.extras["final_obs"] = self._look()
            self._reset_idx(ids)
        self.command = torch.rand(self.num_envs, 1)
        return self._observations(), self.reward_buf, self.reset_terminated, self.reset_time_outs, self.extras

    def _reset_idx(self, env_ids: Tensor) -> None:
        self.position[env_ids] = 0.2 * torch.rand(len(env_ids), self.actions) - 0.1
        self.episode_length_buf[env_ids] = 0
        self.extras["log"] = {"Episode_Termination/time_out": self.reset_time_outs.float().mean()}

    def _policy(self) -> Tensor:
        """Position, the time, and noise to fill the row."""
        time = self.episode_length_buf[:, None].float()
        rest = torch.rand(self.num_envs, self.width - self.actions - 1)
        return torch.cat([self.position, time, rest], 1)

    def render(self):
        return np.zeros((720, 1280, 3), np.uint8) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        WORLD.context = None


class FakeManagerBased(FakeLabEnv):
    """The critic's group comes as a dict of terms, the policy's as one tensor."""

    width, actions = 48, 12

    def __init__(self, cfg: Any, render_mode: str | None = None):
        super().__init__(cfg, render_mode)
        self.observation_manager = _Manager(self) if WORLD.args_of_compute else _OldManager(self)
        self.single_observation_space = Dict(
            {
                "policy": Box(-np.inf, np.inf, (48,)),
                "critic": Dict({"state": Box(-np.inf, np.inf, (12,)), "clock": Box(-np.inf, np.inf, (1,))}),
            }
        )

    def _look(self):
        return self.observation_manager.compute()

    def _observations(self):
        return self.observation_manager.step()


class _Manager:
    def __init__(self, env: FakeManagerBased):
        self.env, self.looks, self.recorded = env, 0, 0
        self._group_obs_term_history_buffer = {"policy": {"joint_pos": object()} if WORLD.history else {}}

    def compute(self, update_history: bool = False):
        self.looks += 1
        self.recorded += update_history
        clock = self.env.episode_length_buf[:, None].float()
        return {"policy": self.env._policy(), "critic": {"state": self.env.position, "clock": clock}}

    def step(self):
        return self.compute(update_history=True)


class _OldManager(_Manager):
    """Every look counts as a step for the history of observations."""

    def compute(self):
        return super().compute(update_history=True)

    def step(self):
        return self.compute()


class FakeDirect(FakeLabEnv):
    """One buffer for the observations, noise on top of them."""

    width, actions = 124, 16

    def __init__(self, cfg: Any, render_mode: str | None = None):
        super().__init__(cfg, render_mode)
        self.single_observation_space = Dict({"policy": Box(-np.inf, np.inf, (124,))})
        self.buffer = torch.zeros(self.num_envs, 124)
        cfg.observation_noise_model = SimpleNamespace(shift=3.0)
        self._observation_noise_model = lambda obs: obs.add_(cfg.observation_noise_model.shift)

    def _get_observations(self):
        self.buffer[:] = self._policy()
        return {"policy": self.buffer}

    def _look(self):
        return {group: rows.clone() for group, rows in self._observations().items()}

    def _observations(self):
        obs = self._get_observations()
        obs["policy"] = self._observation_noise_model(obs["policy"])
        return obs
