"""FlashSAC as a runner of mjlab, where PPO's would be.

For a task of your own: register_mjlab_task("My-Task-FlashSAC", env_cfg, play_env_cfg, FlashSACRunnerCfg(),
FlashSACRunner)
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from mjlab.rl import RslRlBaseRunnerCfg
from torch import Tensor

from flashsac.config.schema import AgentConfig, EnvConfig, EvalConfig, ReplayConfig, TrainConfig
from flashsac.errors import CheckpointError, FlashSACError
from flashsac.policies.policy import Policy, policy_from
from flashsac.runs import layout
from flashsac.runs.directory import read_config
from flashsac.sims.envs.mjlab import MjlabVecEnv
from flashsac.sims.vector.history import HistoryBuffer
from flashsac.training.hooks import Hooks
from flashsac.training.start import new_run
from flashsac.training.trainer import Trainer
from flashsac.types import EnvSpec, Obs

SUFFIX = "-FlashSAC"
RUN = "flashsac"
"""The folder of a log directory that is FlashSAC's run directory: metrics, checkpoints, replay."""


@dataclasses.dataclass
class FlashSACRunnerCfg(RslRlBaseRunnerCfg):
    """mjlab's settings of a run, with FlashSAC's where PPO's would be. An iteration: num_steps_per_env steps of every
    environment."""

    max_iterations: int = 2_000
    """The maximum number of iterations; the default comes to the paper's 50 million transitions with 1024
    environments."""
    logger: Literal["wandb", "tensorboard"] = "tensorboard"
    """The sink of metrics; metrics.csv and TensorBoard's files are always written."""
    algorithm: AgentConfig = dataclasses.field(default_factory=AgentConfig)
    """The algorithm; the defaults are the paper's for many parallel environments."""
    history: int = 0
    """Past observations shown to the actor through a context estimator; for tasks that tell the critic the base's
    velocity."""
    replay: ReplayConfig = dataclasses.field(default_factory=ReplayConfig)
    """The replay buffer."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Type of the matrix products; auto measures which is fastest on this device."""
    compile: Literal["on", "off"] = "on"
    """Compile acting and learning."""


def settings_like(ppo: Any) -> FlashSACRunnerCfg | None:
    """FlashSAC's settings for a task that is registered with PPO's.

    None for a task from pictures, and for settings of another kind, as a plug-in may have. Raising an error while mjlab
    loads this module would take all its tasks away.
    """
    from_pixels = getattr(getattr(ppo, "actor", None), "cnn_cfg", None) is not None
    needed = ("num_steps_per_env", "obs_groups", "clip_actions", "experiment_name")
    if from_pixels or not all(hasattr(ppo, name) for name in needed):
        return None
    return FlashSACRunnerCfg(
        num_steps_per_env=ppo.num_steps_per_env,
        obs_groups=ppo.obs_groups,
        clip_actions=ppo.clip_actions,
        experiment_name=f"{ppo.experiment_name}_flashsac",
    )


class FlashSACRunner:
    """What mjlab's commands ask of a runner: learn, save, load, and a policy to play."""

    @staticmethod
    def annotate_spec(spec: EnvSpec) -> EnvSpec:
        """Add where the critic finds the base's velocity and how observations look in a mirror; a subclass knows its
        task."""
        return spec

    def __init__(
        self,
        env: Any,
        train_cfg: dict[str, Any],
        log_dir: str | None = None,
        device: str = "cpu",
        registry_name: str | None = None,
    ):
        """`registry_name` says where a motion to track came from; PPO's runner notes it in W&B, we have no use for
        it."""
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise FlashSACError("FlashSAC trains on one GPU in mjlab: leave --gpu-ids out, or name one.")
        self.env, self.cfg, self.device = env, train_cfg, device
        self.log_dir = None if log_dir is None else Path(log_dir)
        self.policy: Policy | None = None
        self.step = 0
        self._loaded_from: Path | None = None

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train for that many iterations more; every checkpoint is also written as model_ITERATION.pt, which `play`
        reads."""
        if self._loaded_from is not None:
            _require_whole(self._loaded_from, self.step)
        env = _BorrowedEnv(self.env, self.cfg, spread_episodes=init_at_random_ep_len)
        env.spec = self.annotate_spec(env.spec)
        config = self._config(num_learning_iterations)
        if self._loaded_from is not None and config.precision == "auto":  # it goes on as it began
            config = dataclasses.replace(config, precision=read_config(self._loaded_from)[1].precision)
        new_run(env, config, name=self.task(), hooks=[_KeepPolicy(self)], continue_from=self._loaded_from).train()

    def task(self) -> str:
        """The name that run and policy bear."""
        return f"custom:{self.cfg['experiment_name']}"

    def _config(self, iterations: int) -> TrainConfig:
        if self.log_dir is None:
            raise FlashSACError("this runner was made without a log directory: it can play, but not learn.")
        cfg, each = self.cfg, self._transitions_per_iteration()
        agent, steps = AgentConfig(**cfg["algorithm"]), self.step + iterations * each
        if steps <= agent.warmup:
            raise FlashSACError(
                f"{iterations} iterations of {each} transitions end before learning begins (--agent.algorithm.warmup {agent.warmup}). "
                "Simulate more environments (--env.scene.num-envs), run more iterations (--agent.max-iterations), or warm up less."
            )
        return TrainConfig(
            steps=steps,
            seed=cfg["seed"],
            run_dir=str(self.log_dir / RUN),
            device=self.device,
            precision=cfg["precision"],
            compile=cfg["compile"],
            checkpoint_every=cfg["save_interval"] * each,
            video=False,
            wandb=cfg["wandb_project"] if cfg["logger"] == "wandb" else None,
            agent=agent,
            env=EnvConfig(num_envs=self.env.num_envs, history=cfg["history"]),
            replay=ReplayConfig(**cfg["replay"]),
            eval=EvalConfig(every=0),
        )

    def _transitions_per_iteration(self) -> int:
        return self.cfg["num_steps_per_env"] * self.env.num_envs

    def keep(self, policy: Policy, step: int) -> None:
        """The policy of a checkpoint, as a file that mjlab's `play` finds."""
        assert self.log_dir is not None
        self.policy, self.step = policy, step
        self.save(str(self.log_dir / f"model_{step // self._transitions_per_iteration()}.pt"))

    def save(self, path: str, infos: dict | None = None) -> None:
        """The policy in a file of mjlab's kind. All else that training needs lies in the run directory beside it."""
        if self.policy is None:
            raise FlashSACError("there is no policy to save: learn or load one first.")
        weights = self.policy.weights()
        torch.save({"flashsac": self.policy.meta, "weights": weights, "step": self.step, "infos": infos}, path)

    def load(
        self,
        path: str,
        load_cfg: dict | None = None,
        strict: bool = True,
        map_location: str | None = None,
    ) -> dict | None:
        """The policy; a `learn` after this goes on from the newest checkpoint of the run that the file belongs to."""
        content = torch.load(path, map_location=map_location, weights_only=True)
        if "flashsac" not in content:
            raise CheckpointError(f"{path} was not written by FlashSAC. Load it with the task without {SUFFIX}.")
        self.policy = policy_from(content["flashsac"], content["weights"], source=path)
        self.step, self._loaded_from = content["step"], Path(path).parent / RUN
        return content["infos"]

    def get_inference_policy(self, device: str | None = None) -> Callable[[Any], Tensor]:
        """Deterministic actions, in the environment's own bounds, for mjlab's observations."""
        if self.policy is None:
            raise FlashSACError("there is no policy to play: learn or load one first.")
        return _Player(self.policy.to(device), self.cfg["obs_groups"]["actor"], self.env, device)

    def add_git_repo_to_log(self, repo_file_path: str) -> None:
        """Part of mjlab's protocol; our runs record the versions of the packages instead."""


class _Player:
    """A policy for mjlab's observations. It keeps past observations where the policy needs them."""

    def __init__(self, policy: Policy, groups: Sequence[str], env: Any, device: str | None):
        self._policy, self._groups, self._env = policy, groups, env.unwrapped
        self._bound = torch.tensor(policy.meta["action_high"], device=device)
        length = policy.meta.get("history", 0)
        self._history = HistoryBuffer(length) if length else None

    def __call__(self, obs: Any) -> Tensor:
        newest = torch.cat([obs[group] for group in self._groups], dim=1)
        seen = {"actor": newest} | ({"history": self._before(newest, self._history)} if self._history else {})
        return self._policy.act(seen) * self._bound

    def _before(self, newest: Tensor, history: HistoryBuffer) -> Tensor:
        """The history as in training; the first call, or another number of environments, starts a new one."""
        if history.newest.shape != newest.shape:
            return history.begin(newest)
        return history.add(newest, self._env.episode_length_buf == 0)[0]


class _KeepPolicy(Hooks):
    """A hook that gives the runner the policy of every checkpoint."""

    def __init__(self, runner: FlashSACRunner):
        self._runner = runner

    def after_save(self, trainer: Trainer, checkpoint: Path) -> None:
        self._runner.keep(trainer.session.policy(), trainer.step)


class _BorrowedEnv(MjlabVecEnv):
    """mjlab's environment, wrapped for rsl_rl, in our terms. It stays mjlab's to close."""

    def __init__(self, env: Any, cfg: dict[str, Any], *, spread_episodes: bool):
        super().__init__(env.env, cfg["obs_groups"], cfg["clip_actions"])
        self._spread = spread_episodes

    def reset(self, seed: int) -> Obs:
        obs = super().reset(seed)
        if self._spread:  # or all episodes would end together
            generator = torch.Generator().manual_seed(seed)
            ages = torch.randint(self.base.max_episode_length, (self.spec.num_envs,), generator=generator)
            self.base.episode_length_buf = ages.to(self.base.episode_length_buf)
        return obs

    def close(self) -> None:
        pass


def _require_whole(run: Path, step: int) -> None:
    """Replay and optimizers are kept of the newest checkpoints only; an older policy, or one alone, can be played, not
    trained on."""
    checkpoints = run / layout.CHECKPOINTS
    if not checkpoints.is_dir():
        raise CheckpointError(f"{run} does not exist: the policy can be played, but to go on the whole run is needed.")
    saved = [layout.step_of(folder) for folder in layout.checkpoint_folders(checkpoints)]
    if saved and max(saved) != step:
        raise CheckpointError(
            f"this model is from step {step:,}, but its run went on to step {max(saved):,}. Training goes on from the newest model of "
            "a run only: load the one with the highest number."
        )
