"""rsl_rl's interface: its versions by small stand-ins, and the real thing by mjlab's wrapper."""

from __future__ import annotations

import pytest
import torch

import flashsac
from flashsac.config.schema import EnvConfig
from flashsac.errors import UnsupportedSpace
from flashsac.runs.metrics import read_metrics
from flashsac.sims.check import check_env
from flashsac.sims.envs.rsl_rl import RslRlVecEnv
from flashsac.sims.make import make_env
from flashsac.sims.user_env import environments_in
from tests import toy_envs

SHORT: dict = dict(
    eval=dict(every=200, episodes=2),
    preset="single",
    steps=400,
    compile="off",
    precision="fp32",
    agent=dict(warmup=100, batch_size=16, actor_width=8, critic_width=8),
)


class Walk:
    """A point that drifts; odd environments fall at the end of an episode, even ones run out of time."""

    num_envs, num_actions, max_episode_length, device = 4, 2, 6, "cpu"

    def __init__(self, final_obs=False, version=5):
        self.final_obs, self.version = final_obs, version
        self.buffer = torch.zeros(4, 3)
        self.last_action = torch.zeros(4, 2)
        self.seed(0)
        self.reset()

    def seed(self, seed):
        self.random = torch.Generator().manual_seed(seed)

    def reset(self):
        self.age = torch.zeros(4, dtype=torch.long)
        self.buffer[:] = torch.rand(4, 3, generator=self.random)

    def _shown(self, extras):
        critic = torch.cat([self.buffer, -self.buffer], 1)
        if self.version == 1:
            return (self.buffer, critic)
        if self.version == 2:
            extras["observations"] = {"critic": critic}
            return (self.buffer,)
        return ({"policy" if self.version == 3 else "actor": self.buffer, "critic": critic},)

    def get_observations(self):
        extras = {}
        shown = self._shown(extras)
        return (shown[0], extras) if self.version == 2 else shown[0]

    def step(self, actions):
        self.last_action = actions
        self.age += 1
        self.buffer += 0.1
        self.buffer[:, :2] += actions
        done = self.age >= self.max_episode_length
        extras = {"time_outs": done & (torch.arange(4) % 2 == 0)}
        if self.final_obs:
            extras["final_obs"] = {"actor": self.buffer.clone(), "critic": torch.cat([self.buffer, -self.buffer], 1)}
        self.buffer[done] = torch.rand(int(done.sum()), 3, generator=self.random)
        self.age[done] = 0
        return *self._shown(extras), self.buffer[:, 2].clone(), done.long(), extras


class WalkOfVersion1(Walk):
    def __init__(self):
        super().__init__(version=1)

    def get_privileged_observations(self):
        return torch.cat([self.buffer, -self.buffer], 1)


@pytest.mark.parametrize("make", [WalkOfVersion1, *(lambda v=v: Walk(version=v) for v in (2, 3, 5))])
def test_every_version_keeps_the_contract(make):
    env = make_env(make(), EnvConfig(num_envs=1))
    assert env.spec.obs == {"actor": 3, "critic": 6}
    assert (env.spec.num_envs, env.spec.action_dim, env.spec.max_episode_steps) == (4, 2, 6)
    check_env(env, steps=20)


def test_lost_final_observations_are_not_made_up():
    env = RslRlVecEnv(Walk())
    before = env.reset(0)
    for i in range(6):
        step = env.step(torch.zeros(4, 2))
        if i < 5:
            before = step.obs
    assert step.truncated.tolist() == [True, False, True, False]
    assert step.terminated.tolist() == [False, True, False, True]
    assert step.valid.tolist() == [False, True, False, True], "cut off, and nothing to bootstrap from"
    assert torch.equal(step.final_obs["actor"], before["actor"]), "the last one seen stands in"
    assert env.step(torch.zeros(4, 2)).valid.all()


def test_final_observations_in_extras_are_used():
    env = RslRlVecEnv(Walk(final_obs=True))
    first = env.reset(0)["actor"]
    step = [env.step(torch.zeros(4, 2)) for _ in range(6)][-1]
    assert step.valid.all()
    assert torch.allclose(step.final_obs["actor"], first + 0.6)
    assert not torch.allclose(step.obs["actor"], first + 0.6)


class TellsTheActorOnly(Walk):
    """Its final observation is a tensor without a name, which cannot hold the critic's."""

    def step(self, actions):
        *shown, extras = super().step(actions)
        return *shown, extras | {"terminal_observation": torch.full((4, 3), 9.0)}


def test_a_final_observation_without_the_critics_part_counts_as_lost():
    env = RslRlVecEnv(TellsTheActorOnly())
    env.reset(0)
    steps = [env.step(torch.zeros(4, 2)) for _ in range(6)]
    assert steps[-1].valid.tolist() == [False, True, False, True], (
        "cut off, and half of what to bootstrap from is missing"
    )
    for group in ("actor", "critic"):
        assert torch.equal(steps[-1].final_obs[group], steps[-2].obs[group]), "one moment for both"


def test_nothing_counts_between_nan_and_the_next_reset():
    walk = Walk(final_obs=True)
    env = RslRlVecEnv(walk)
    env.reset(0)
    env.step(torch.zeros(4, 2))
    walk.buffer[1, 0] = torch.nan
    steps = [env.step(torch.zeros(4, 2)) for _ in range(6)]
    assert [step.valid.tolist() for step in steps] == [[True, i == 5, True, True] for i in range(6)]
    assert all(torch.isfinite(step.obs["actor"]).all() for step in steps)


def test_actions_are_scaled_to_the_wrappers_clip():
    walk = Walk()
    walk.clip_actions = 5.0
    env = RslRlVecEnv(walk)
    env.step(torch.tensor([[0.5, -9.0]] * 4))
    assert walk.last_action[0].tolist() == [2.5, -5.0]
    assert env.spec.action_low == (-5.0, -5.0)


def test_groups_that_cannot_be_used():
    walk = Walk()
    walk.get_observations = lambda: {"state": walk.buffer}
    with pytest.raises(UnsupportedSpace, match="'actor' or 'policy'"):
        RslRlVecEnv(walk)
    for rows in (torch.zeros(4, 3, 8, 8), {"height": torch.zeros(4, 1)}):
        walk.get_observations = lambda rows=rows: {"actor": rows}
        with pytest.raises(UnsupportedSpace, match="state vectors"):
            RslRlVecEnv(walk)


@pytest.mark.slow
@pytest.mark.parametrize("as_function", [False, True])
def test_train(tmp_path, capsys, as_function):
    result = flashsac.train(Walk if as_function else Walk(), run_dir=str(tmp_path / "run"), video=False, **SHORT)
    rows = read_metrics(tmp_path / "run" / "metrics.csv")
    assert result.step == 400
    assert rows[-1]["updates"] > 0
    assert rows[-1]["episodes"] == pytest.approx(400 / 6, abs=4)
    assert rows[-1]["invalid"] > 20, "a third of all are cut off, and that is no reason to stop"
    errors = capsys.readouterr()
    assert ("eval_return" in rows[-1]) == as_function
    assert ("nothing is evaluated" in errors.err) != as_function
    assert "final observations" in errors.out + errors.err
    assert flashsac.load_policy(result.run_dir)(torch.zeros(3).numpy()).shape == (2,)


def test_objects_keep_their_number_of_environments_and_get_the_preset_for_many():
    assert environments_in(Walk()) == environments_in(RslRlVecEnv(Walk())) == 4
    assert flashsac.configure(Walk()).agent == flashsac.configure("x:y", preset="parallel").agent
    assert flashsac.configure(toy_envs.PointEnv()).agent == flashsac.configure("x:y", preset="single").agent


def test_mjlabs_wrapper(tmp_path):
    """The real thing: it resets by itself, as Isaac Lab does."""
    pytest.importorskip("mjlab")
    import mjlab.tasks  # noqa: F401
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.rl import RslRlVecEnvWrapper
    from mjlab.tasks.registry import load_env_cfg

    cfg = load_env_cfg("Mjlab-Cartpole-Swingup")
    cfg.scene.num_envs, cfg.episode_length_s = 4, 0.45
    wrapped = RslRlVecEnvWrapper(ManagerBasedRlEnv(cfg, "cpu"))
    env = make_env(wrapped, EnvConfig(num_envs=1))
    check_env(env, steps=20)
    env.reset(0)
    steps = [env.step(torch.ones(4, 1)) for _ in range(20)]
    assert [bool(step.truncated.all()) for step in steps] == [i % 9 == 8 for i in range(20)]
    assert all(torch.equal(step.valid, ~step.truncated) for step in steps)
    result = flashsac.train(wrapped, run_dir=str(tmp_path / "run"), quiet=True, **SHORT)
    assert result.step == 400
    assert result.row["episodes"] == pytest.approx(400 / 9, abs=4)
    wrapped.close()
