"""Evaluation: environments of its own, deterministic policy, the same episodes every time."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from flashsac.config.schema import EnvConfig
from flashsac.errors import BadSimulation, EvaluationAbandoned, FlashSACError
from flashsac.policies.find import PolicyOnTask
from flashsac.policies.policy import Acting, Policy
from flashsac.sims.base import no_exit
from flashsac.sims.make import make_env
from flashsac.sims.user_env import more_like
from flashsac.system.files import replacing

MAX_PARALLEL = 16
MAX_STEPS = 10_000
"""An episode without an end of its own is cut here."""
MAX_VOID = 0.1
"""Largest share of void episodes of a best policy: breaking the simulator where the policy does badly must not pay."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """One number per episode; success is NaN where the simulator did not report it.

    A void episode broke the simulator: it ended in NaN, Inf or a reward out of range, or an action was NaN or Inf. Its
    return says nothing, so it is counted and left out.
    """

    METRICS: ClassVar[dict[str, str]] = {
        "eval_return": "mean return of the evaluation episodes",
        "eval_return_std": "standard deviation of the returns of the evaluation episodes",
        "eval_length": "mean length of the evaluation episodes, in steps",
        "eval_success": "share of the evaluation episodes that succeeded, where the simulator reports success",
        "eval_void": "evaluation episodes left out because they broke the simulator: NaN or Inf",
    }

    returns: np.ndarray
    lengths: np.ndarray
    successes: np.ndarray
    void: int = 0
    cut: int = 0
    """Episodes that had no end of their own within MAX_STEPS."""

    @property
    def episodes(self) -> int:
        """All that were run, void ones included."""
        return len(self.returns) + self.void

    @property
    def problem(self) -> str | None:
        """What to tell of void episodes; None if there are none."""
        if not self.void:
            return None
        return (
            f"{self.void} of {self.episodes} evaluation episodes broke the simulator (NaN, Inf or a reward out of range) and "
            f"{'are left out' if len(self.returns) else 'none is left to judge the policy by'}"
        )

    @property
    def can_be_best(self) -> bool:
        return self.void <= MAX_VOID * self.episodes

    def summary(self) -> dict[str, float]:
        """Means; where all episodes are void, their number alone."""
        out: dict[str, float] = {"eval_void": self.void}
        if not len(self.returns):
            return out
        out |= {"eval_return": float(self.returns.mean()), "eval_return_std": float(self.returns.std())}
        out["eval_length"] = float(self.lengths.mean())
        if np.isfinite(self.successes).any():
            # Some simulators speak of success only when there is one, and none does in an episode that broke off.
            out["eval_success"] = float(np.nan_to_num(self.successes).mean())
        return out

    def write_csv(self, path: Path, task: str) -> None:
        """Write one row per episode; `task` names the task and its settings."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, in_place=True) as temporary, temporary.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(("task", "episode", "return", "length", "success"))
            for i, (total, length, success) in enumerate(zip(self.returns, self.lengths, self.successes, strict=True)):
                writer.writerow(
                    (task, i, f"{total:.6g}", f"{length:.0f}", "" if math.isnan(success) else f"{success:g}")
                )


class Evaluator:
    """Runs episodes in parallel; each environment has its quota, so that short episodes are not favoured."""

    def __init__(self, task: Any, config: EnvConfig, episodes: int, seed: int, *, device: str = "cpu"):
        if episodes < 1:
            raise FlashSACError(f"--episodes must be at least 1, not {episodes}.")
        self.episodes, self.seed, self._abandoned = episodes, seed, False
        num_envs = math.ceil(episodes / math.ceil(episodes / MAX_PARALLEL))
        # Nobody learns meanwhile, so environments need no processes of their own.
        self.env = make_env(task, dataclasses.replace(config, num_envs=num_envs, overlap=False), device=device)
        # By how many there are, which an environment of the user's own may decide by itself.
        self.quota = math.ceil(episodes / self.env.spec.num_envs)

    def abandon(self) -> None:
        """Evaluate no more, and end the running evaluation without a result. A signal handler may call it."""
        self._abandoned = True

    def evaluate(self, policy: Acting, alive: Callable[[], None] = lambda: None) -> Evaluation:
        """Run the episodes, the same ones every time; calls `alive` after every step."""
        if isinstance(policy, Policy):
            policy.require_finite()
        num_envs = self.env.spec.num_envs
        returns, lengths = torch.zeros(num_envs), torch.zeros(num_envs)
        success, void = torch.full((num_envs,), float("nan")), torch.zeros(num_envs, dtype=torch.bool)
        finished: list[list[tuple[float, float, float, bool]]] = [[] for _ in range(num_envs)]
        cut, obs = 0, self.env.reset(self.seed)
        while any(len(done) < self.quota for done in finished):
            if self._abandoned:
                raise EvaluationAbandoned("told to stop")
            action = policy.act(obs)
            step = self.env.step(torch.nan_to_num(action, 0.0, 0.0, 0.0))
            void |= (~torch.isfinite(action).all(1)).cpu() | step.broken().cpu()
            obs = step.obs
            returns += torch.where(step.valid, step.reward, 0.0).cpu()
            lengths += 1
            if "success" in step.info:
                # Success at any time of the episode counts, as in the paper's benchmarks.
                now = torch.as_tensor(step.info["success"], dtype=torch.float32, device="cpu")
                success = torch.fmax(success, now)
            ended = (step.terminated | step.truncated | ~step.valid).cpu()
            over = ended | (lengths >= MAX_STEPS)
            for i in over.nonzero()[:, 0].tolist():
                if len(finished[i]) < self.quota:
                    cut += not ended[i]
                    finished[i].append((returns[i].item(), lengths[i].item(), success[i].item(), bool(void[i])))
            returns[over], lengths[over], success[over], void[over] = 0.0, 0.0, float("nan"), False
            alive()
        episodes = np.array([episode for done in zip(*finished, strict=True) for episode in done])[: self.episodes]
        left_out = episodes[:, 3] != 0
        returned, lasted, succeeded = episodes[~left_out, :3].T
        return Evaluation(returned, lasted, succeeded, int(left_out.sum()), cut)

    def close(self) -> None:
        self.env.close()


def evaluate_policy(located: PolicyOnTask, episodes: int, seed: int) -> Evaluation:
    """Evaluate a trained policy in environments of its own; raises if all episodes are void."""
    located.policy.require_finite()
    with (
        no_exit("evaluation"),
        contextlib.closing(Evaluator(more_like(located.task), located.env, episodes, seed)) as evaluator,
    ):
        located.policy.check_fits(evaluator.env.spec)
        result = evaluator.evaluate(located.policy)
    if not len(result.returns):
        raise BadSimulation(
            f"{result.problem}. Try --checkpoint with another policy of the run, or check the environment."
        )
    return result
