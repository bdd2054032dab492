"""The agent: act, observe, update. It composes the parts of this folder and knows no simulator, file or log."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from flashsac.config.schema import AgentConfig
from flashsac.core.exploration import RepeatedNoise
from flashsac.core.optimizer import adam_step_size
from flashsac.core.replay import Replay, to_device_async
from flashsac.core.reward_scale import NoRewardScale, RewardScale
from flashsac.core.sync import ALONE, Sync
from flashsac.core.update import Learner, Metrics, StepSizes, UpdateNoise
from flashsac.types import Batch, Compiler, EnvSpec, Obs, Step, usable_reward

RANK_STRIDE = 1_000_003
"""Between the seeds of two ranks. The seeds of runs are closer together."""


class Agent:
    """FlashSAC for one simulator. `total_updates` is the length of the learning-rate schedule.

    In the warm-up the agent acts at random, or with `policy_collects` by its policy, which was loaded from another run.
    With a `sync` of several ranks, each has its share of the environments, the replay, the warm-up and the batch. The
    networks are the same on all.
    """

    METRICS: ClassVar[dict[str, str]] = {
        "reward_scale": "divisor of rewards, in units of the task's return",
        "reward_outliers": "jumps of the reward kept out of reward_scale so far, because no second one confirmed them",
        "learning_rate": "Adam's learning rate, the same for actor, critic and temperature",
    }

    def __init__(
        self,
        spec: EnvSpec,
        config: AgentConfig,
        replay: Replay,
        *,
        total_updates: int,
        seed: int = 0,
        policy_collects: bool = False,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        compiler: Compiler = lambda function: function,
        sync: Sync = ALONE,
    ):
        self.spec, self.config, self.replay = spec, config, replay
        self.batch_size = config.batch_size // sync.ranks
        """Rows of the batch that this rank draws."""
        self.warmup = math.ceil(config.warmup / sync.ranks)
        """Transitions that this rank collects before learning starts."""
        self.device = torch.device(device)
        self.total_updates = max(1, total_updates)
        self.updates, self.policy_collects = 0, policy_collects
        # Own generators on the CPU draw all random numbers: the same on every device, saved with the agent, and
        # independent of the global random state.
        own_seed = seed + sync.rank * RANK_STRIDE
        self.acting_rng = torch.Generator().manual_seed(own_seed)
        self.learning_rng = torch.Generator().manual_seed(own_seed + 1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.learner = Learner(spec, config, self.device, dtype, sync)
        self._explore = compiler(self.learner.explore)
        self._update_critic: Callable[..., Metrics] = compiler(self.learner.update_critic)
        self._update_both: Callable[..., Metrics] = (
            compiler(self.learner.update_both)
            if self.learner.encoder.shares_features
            else _actor_then_critic(compiler(self.learner.update_actor), self._update_critic)
        )
        replay.compile(compiler)
        self.noise = RepeatedNoise(
            (spec.num_envs, spec.action_dim),
            config.noise_max_repeat,
            config.noise_exponent,
            self.acting_rng,
            self.device,
        )
        self.reward_scale = (
            RewardScale(
                spec.num_envs, config.discount, config.value_max, spec.device, guard=config.reward_guard, sync=sync
            )
            if config.reward_scaling
            else NoRewardScale(spec.device)
        )

    @property
    def ready_to_learn(self) -> bool:
        """True once the warm-up is collected. A lost replay makes it False until as much is collected again."""
        return self.replay.collected >= self.warmup and self.replay.ready

    @torch.no_grad()
    def act(self, obs: Obs) -> Tensor:
        """Exploring actions in [-1, 1], (envs, action_dim), on the simulator's device; in the warm-up uniform by
        default."""
        if not (self.ready_to_learn or self.updates or self.policy_collects):
            shape = (self.spec.num_envs, self.spec.action_dim)
            return (2 * torch.rand(shape, generator=self.acting_rng) - 1).to(self.spec.device)
        shown = {group: rows.to(self.device).contiguous() for group, rows in obs.items() if group != "critic"}
        return self._explore(shown, self.noise.next()).to(self.spec.device)

    def observe(self, obs: Obs, action: Tensor, step: Step) -> None:
        """Store one transition of every environment. A reward that is no usable number makes its transition invalid."""
        step = step._replace(valid=step.valid & usable_reward(step.reward))
        self.replay.add(obs, action, step)
        self.reward_scale.observe(step.reward, step.terminated | step.truncated, step.valid)

    def update(self) -> Metrics:
        """One gradient step of the critic and, every `actor_delay`-th time, of actor and temperature."""
        update = self._update_critic if self.updates % self.config.actor_delay else self._update_both
        metrics = update(*self.draw_update(self.learning_rng))
        self.updates += 1
        return metrics

    def draw_update(self, generator: torch.Generator) -> tuple[Batch, Tensor, UpdateNoise, StepSizes]:
        """What the next update takes: batch, reward scale, noise and step sizes. `generator` draws all of it."""
        size = self.batch_size
        batch = self.replay.sample(size, generator, self.device)
        gaussian = torch.randn(2, size, self.spec.action_dim, generator=generator, device="cpu")
        draws = (self.learner.transform.draw(size, generator), *gaussian)
        noise = UpdateNoise(*(to_device_async(x, self.device) for x in draws))
        learning_rate, delay = self.learning_rate(), self.config.actor_delay
        # Everything from the host is sent before the update starts. Sent later, it would wait for the update to end.
        counts = (self.updates // delay + 1, self.updates + 1)  # Adam steps of the actor, of the critic
        step_sizes = StepSizes(*(to_device_async(adam_step_size(learning_rate, n), self.device) for n in counts))
        return batch, to_device_async(self.reward_scale.scale(), self.device), noise, step_sizes

    def learning_rate(self) -> float:
        """Cosine decay over the run, the same for actor, critic and temperature."""
        start, end = self.config.learning_rate, self.config.learning_rate_end
        progress = min(1.0, self.updates / self.total_updates)
        return end + 0.5 * (start - end) * (1 + math.cos(math.pi * progress))

    def restart_episodes(self, obs: Obs) -> None:
        """Close the open episodes and continue from `obs`, because the simulator was reset (a resumed run)."""
        self.replay.truncate_episodes(obs)
        self.reward_scale.restart()

    def load_networks(self, state: dict) -> None:
        """Networks, temperature and statistics from the state of another run. All else stays fresh."""
        self.learner.load_networks(state["learner"])
        self.reward_scale.load_statistics(state["reward_scale"])

    def state_dict(self) -> dict:
        """Everything but the replay's contents, which are saved piecewise (runs/checkpoint.py)."""
        return {
            "learner": self.learner.state_dict(),
            "noise": self.noise.state_dict(),
            "reward_scale": self.reward_scale.state_dict(),
            "replay": self.replay.state_dict(),
            "acting_rng": self.acting_rng.get_state(),
            "learning_rng": self.learning_rng.get_state(),
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict) -> None:
        self.learner.load_state_dict(state["learner"])
        self.noise.load_state_dict(state["noise"])
        self.reward_scale.load_state_dict(state["reward_scale"])
        self.replay.load_state_dict(state["replay"])
        self.acting_rng.set_state(state["acting_rng"])
        self.learning_rng.set_state(state["learning_rng"])
        self.updates = state["updates"]


def _actor_then_critic(
    update_actor: Callable[..., Metrics], update_critic: Callable[..., Metrics]
) -> Callable[..., Metrics]:
    """Two compiled units in sequence. The critic's is then compiled once, and not a second time within a joint unit."""

    def update(batch: Batch, reward_scale: Tensor, noise: UpdateNoise, step_sizes: StepSizes) -> Metrics:
        return update_actor(batch, noise, step_sizes) | update_critic(batch, reward_scale, noise, step_sizes)

    return update
