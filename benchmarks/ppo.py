"""PPO (rsl-rl-lib) on any task of ours, for as long as a FlashSAC run took: the same simulator, evaluation and files, so that
`flashsac report` draws both.

    pip install -c constraints.txt "rsl-rl-lib==5.4.2"
    python benchmarks/ppo.py playground:G1JoystickFlatTerrain --run-dir runs/g1-ppo --minutes 120
    flashsac report flashsac=runs/g1-flashsac ppo=runs/g1-ppo --out benchmarks/results/g1

Settings are those that MuJoCo Playground publishes for rsl_rl, with its discount and entropy bonus for humanoids (0.97, 0.005), the
critic seeing the privileged observations, and the step size that follows the KL divergence, as mjlab and Isaac Lab have it.
Observations and actions are FlashSAC's; an action is not squashed, but clamped to its bounds by the simulator's adapter.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from rsl_rl.env import VecEnv as RslRlVecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from flashsac.config import EnvConfig, EvalConfig, TrainConfig
from flashsac.evaluation import Evaluator
from flashsac.logging import MetricsLog
from flashsac.run import Run
from flashsac.sims.base import VecEnv
from flashsac.sims.registry import make_env
from flashsac.types import Obs

STEPS_EACH = 24
"""Of every environment, between two updates."""


def settings(discount: float) -> dict:
    network = {"class_name": "MLPModel", "hidden_dims": [512, 256, 128], "activation": "elu", "obs_normalization": True}
    noise = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}
    return {
        "num_steps_per_env": STEPS_EACH,
        "save_interval": 10**9,
        "obs_groups": {"actor": ["actor"], "critic": ["critic"]},
        "actor": network | {"distribution_cfg": noise},
        "critic": network,
        "algorithm": {
            "class_name": "PPO",
            "value_loss_coef": 1.0,
            "use_clipped_value_loss": True,
            "clip_param": 0.2,
            "entropy_coef": 0.005,
            "num_learning_epochs": 5,
            "num_mini_batches": 4,
            "learning_rate": 3e-4,
            "schedule": "adaptive",
            "gamma": discount,
            "lam": 0.95,
            "desired_kl": 0.01,
            "max_grad_norm": 1.0,
            "rnd_cfg": None,
        },
    }


class Environments(RslRlVecEnv):
    """Ours, as rsl_rl expects them: a TensorDict of groups, one flag for the end of an episode, time limits in extras."""

    cfg: dict = {}

    def __init__(self, env: VecEnv, seed: int):
        spec = env.spec
        self.env, self.device = env, "cpu"
        self.num_envs, self.num_actions = spec.num_envs, spec.action_dim
        self.max_episode_length = spec.max_episode_steps or 1000
        self.episode_length_buf = torch.zeros(spec.num_envs, dtype=torch.long)
        self._obs = env.reset(seed)
        self.returns, self.finished = torch.zeros(spec.num_envs), list[float]()

    def get_observations(self) -> TensorDict:
        return as_tensordict(self._obs)

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        step = self.env.step(actions)
        self._obs = step.obs
        ended = step.terminated | step.truncated
        self.returns += step.reward
        self.finished = (self.finished + self.returns[ended].tolist())[-100:]
        self.returns[ended] = 0.0
        return self.get_observations(), step.reward, ended, {"time_outs": step.truncated}


def as_tensordict(obs: Obs) -> TensorDict:
    groups = {"actor": obs["actor"], "critic": obs.get("critic", obs["actor"])}
    return TensorDict(groups, batch_size=len(obs["actor"]))


def train(
    task: str, run_dir: Path, minutes: float, num_envs: int, seed: int, eval_every: float, discount: float
) -> None:
    torch.manual_seed(seed)
    env_config = EnvConfig(num_envs=num_envs)
    config = TrainConfig(seed=seed, run_dir=str(run_dir), env=env_config, eval=EvalConfig(episodes=10))
    run = Run.create(task, config)
    environments = Environments(make_env(task, env_config), seed)
    evaluator = Evaluator(task, env_config, config.eval.episodes, seed + 1)
    runner = OnPolicyRunner(environments, settings(discount), log_dir=None, device="cpu")
    metrics = MetricsLog(run_dir)
    begun, due, best = time.monotonic(), 0.0, float("-inf")
    while (seconds := time.monotonic() - begun) < 60 * minutes:
        runner.learn(1)
        runner.current_learning_iteration += 1
        step = runner.current_learning_iteration * STEPS_EACH * num_envs
        if seconds < due:
            continue
        due += 60 * eval_every
        policy = runner.get_inference_policy()
        with torch.inference_mode():
            judged = evaluator.run(lambda obs, policy=policy: policy(as_tensordict(obs)).clamp(-1.0, 1.0)).summary()
        recent = sum(environments.finished) / max(len(environments.finished), 1)
        row = {"step": step, "return": recent, **judged, "seconds": time.monotonic() - begun}
        metrics.write(row)
        print("  ".join(f"{name} {value:,.6g}" for name, value in row.items()), flush=True)
        if judged["eval_return"] > best:
            best = judged["eval_return"]
            runner.save(str(run_dir / "best.pt"))
    metrics.close()
    run.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--eval-every", type=float, default=5, help="minutes")
    parser.add_argument("--discount", type=float, default=0.97)
    train(**vars(parser.parse_args()))
