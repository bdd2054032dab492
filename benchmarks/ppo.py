"""PPO (rsl-rl-lib) on any task of ours, for as long as a FlashSAC run took: the same simulator, evaluation and files,
so that `flashsac report` draws both. Evaluation is not training time, in either.

    pip install -c constraints.txt "rsl-rl-lib==5.4.2"
    python benchmarks/ppo.py playground:G1JoystickFlatTerrain --run-dir runs/g1-ppo --as-long-as runs/g1-flashsac
    flashsac report flashsac=runs/g1-flashsac ppo=runs/g1-ppo --out benchmarks/results/g1

Settings are those that MuJoCo Playground publishes for rsl_rl, with its discount and entropy bonus for humanoids (0.97,
0.005), the critic seeing the privileged observations, and the step size that follows the KL divergence, as mjlab and
Isaac Lab have it. Observations and actions are FlashSAC's; an action is not squashed, but clamped to its bounds by the
simulator's adapter.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from types import SimpleNamespace

import torch
from rsl_rl.env import VecEnv as RslRlVecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from flashsac.config.schema import EnvConfig, EvalConfig, TrainConfig
from flashsac.policies.evaluation import Evaluation, Evaluator
from flashsac.policies.evaluation_process import EVAL_SEED
from flashsac.runs.directory import Run
from flashsac.runs.metrics import MetricsLog, read_metrics
from flashsac.sims.base import VecEnv
from flashsac.sims.make import make_env
from flashsac.training.counters import Clock, EpisodeStats
from flashsac.types import Obs

COLUMNS = ("step", "episodes", "return", "length", *Evaluation.METRICS, "action_std", "seconds", "steps_per_second")


def settings(discount: float, steps_each: int, init_std: float) -> dict:
    network = {"class_name": "MLPModel", "hidden_dims": [512, 256, 128], "activation": "elu", "obs_normalization": True}
    noise = {"class_name": "GaussianDistribution", "init_std": init_std, "std_type": "scalar"}
    return {
        "num_steps_per_env": steps_each,
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
    """Ours, as rsl_rl expects them: a TensorDict of groups, one flag for the end of an episode, time limits in
    extras."""

    cfg: dict = {}

    def __init__(self, env: VecEnv, seed: int):
        spec = env.spec
        self.env, self.device = env, "cpu"
        self.num_envs, self.num_actions = spec.num_envs, spec.action_dim
        self.max_episode_length = spec.max_episode_steps or 1000
        self.episode_length_buf = torch.zeros(spec.num_envs, dtype=torch.long)
        self._obs = env.reset(seed)
        self.episodes = EpisodeStats(spec.num_envs)

    def get_observations(self) -> TensorDict:
        return as_tensordict(self._obs)

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict]:
        step = self.env.step(actions)
        self._obs = step.obs
        self.episodes.observe(step)
        # What an invalid step led to is unknown: it is worth nothing, and the value before it stands for what would
        # have come.
        reward, cut = torch.where(step.valid, step.reward, 0.0), step.truncated | ~step.valid
        return self.get_observations(), reward, step.terminated | cut, {"time_outs": cut & ~step.terminated}


def as_tensordict(obs: Obs) -> TensorDict:
    groups = {"actor": obs["actor"], "critic": obs.get("critic", obs["actor"])}
    return TensorDict(groups, batch_size=len(obs["actor"]))


def seconds_of(run: Path) -> float:
    """That a FlashSAC run spent training."""
    rows = read_metrics(run / "metrics.csv")
    if not rows:
        raise SystemExit(f"{run} has no rows in metrics.csv: train it first, or say --minutes.")
    return rows[-1]["seconds"]


def train(
    task: str,
    run_dir: Path,
    seconds: float,
    *,
    num_envs: int = 128,
    seed: int = 0,
    eval_every: float = 300.0,
    eval_episodes: int = 20,
    discount: float = 0.97,
    steps_each: int = 48,
    init_std: float = 1.0,
) -> None:
    """`eval_every`: seconds of training. `steps_each`: of every environment, between two updates; 48 of 128
    environments make as many transitions as Playground's 24 of 256, which need more memory."""
    torch.manual_seed(seed)
    env_config = EnvConfig(num_envs=num_envs)
    config = TrainConfig(seed=seed, run_dir=str(run_dir), env=env_config, eval=EvalConfig(episodes=eval_episodes))
    run = Run.create(task, config)
    environments = Environments(make_env(task, env_config), seed)
    evaluator = Evaluator(task, env_config, eval_episodes, seed + EVAL_SEED)
    run.write_config()
    ppo = settings(discount, steps_each, init_std)
    # config.json, which `flashsac report` reads, has FlashSAC's settings; of those only task, seed and environments
    # hold here.
    (run_dir / "ppo.json").write_text(json.dumps(ppo | {"num_envs": num_envs}, indent=2) + "\n")
    runner = OnPolicyRunner(environments, ppo, log_dir=None, device="cpu")
    metrics = MetricsLog(run_dir, columns=COLUMNS)
    clock, due, best = Clock(), 0.0, float("-inf")
    while clock.seconds < seconds:
        clock.start(runner.current_learning_iteration * steps_each * num_envs)
        runner.learn(1)
        runner.current_learning_iteration += 1
        step = runner.current_learning_iteration * steps_each * num_envs
        rate = clock.lap(step)
        if clock.seconds < min(due, seconds):
            continue
        due += eval_every
        policy = runner.get_inference_policy()
        with torch.inference_mode():
            act = lambda obs, policy=policy: policy(as_tensordict(obs)).clamp(-1.0, 1.0)
            scores = evaluator.evaluate(SimpleNamespace(act=act)).summary()
        row = {"step": step, **environments.episodes.summary(), **scores, "action_std": policy.output_std.mean().item()}
        row |= {"seconds": clock.seconds, "steps_per_second": rate}
        metrics.write(row)
        print("  ".join(f"{name} {value:,.6g}" for name, value in row.items()), flush=True)
        if scores.get("eval_return", best) > best:
            best = scores["eval_return"]
            runner.save(str(run_dir / "best.pt"))
    runner.save(str(run_dir / "last.pt"))
    metrics.close()
    run.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task")
    parser.add_argument("--run-dir", type=Path, required=True)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--as-long-as", type=Path, metavar="RUN", help="a FlashSAC run, whose training time is taken")
    length.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--num-envs", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--eval-every", type=float, default=5, help="minutes")
    parser.add_argument("--eval-episodes", type=int, default=20)
    parser.add_argument("--discount", type=float, default=0.97)
    parser.add_argument("--steps-each", type=int, default=48, help="of every environment, between two updates")
    parser.add_argument(
        "--init-std", type=float, default=1.0, help="of the first policy's noise; actions reach from -1 to 1"
    )
    given = parser.parse_args()
    train(
        given.task,
        given.run_dir,
        seconds_of(given.as_long_as) if given.as_long_as else 60 * given.minutes,
        num_envs=given.num_envs,
        seed=given.seed,
        eval_every=60 * given.eval_every,
        eval_episodes=given.eval_episodes,
        discount=given.discount,
        steps_each=given.steps_each,
        init_std=given.init_std,
    )


if __name__ == "__main__":
    main()
