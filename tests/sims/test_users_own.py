"""Environments as users bring them: what is passed on to them, and what they get wrong."""

from __future__ import annotations

import importlib.util

import gymnasium
import pytest
import torch
from gymnasium.wrappers import TimeLimit

import flashsac
from flashsac.config.schema import EnvConfig
from flashsac.errors import BadSimulation, FlashSACError, MissingExtra, UnknownTask, UnsupportedSpace
from flashsac.policies import evaluation
from flashsac.sims.check import check_env
from flashsac.sims.make import make_env
from tests import toy_envs
from tests.helpers import TINY


def test_factories_are_asked_by_name_for_what_they_take():
    seen = []

    def make(num_envs, *, max_episode_steps=3, other=None):
        seen.append((num_envs, max_episode_steps, other))
        return make_env(toy_envs.make_point, EnvConfig(num_envs=num_envs))

    assert make_env(make, EnvConfig(num_envs=5)).spec.num_envs == 5
    make_env(make, EnvConfig(num_envs=4, max_episode_steps=9))
    assert seen == [(5, 3, None), (4, 9, None)]
    with pytest.raises(UnsupportedSpace, match="it may take num_envs, max_episode_steps, render_mode"):
        make_env(lambda width: None, EnvConfig(num_envs=1))


class OldStep(toy_envs.PointEnv):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, info


class OldReset(toy_envs.PointEnv):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class Seedless(toy_envs.PointEnv):
    def reset(self):
        return super().reset()


@pytest.mark.parametrize("limit", [None, 10])
def test_the_old_interface_is_named(limit):
    config = EnvConfig(num_envs=1, max_episode_steps=limit)
    env = make_env(OldStep, config)
    env.reset(0)
    with pytest.raises(BadSimulation, match=r"must return \(observation, reward, terminated.*old gym"):
        env.step(torch.zeros(1, 2))
    with pytest.raises(BadSimulation, match="no pair.*old gym"):
        make_env(OldReset, config).reset(0)
    with pytest.raises(BadSimulation, match="takes no seed.*old gym"):
        make_env(Seedless, config).reset(0)


@pytest.mark.parametrize("as_object", [True, False])
def test_gymnasiums_vector_environments_are_refused_with_what_to_hand_over(tmp_path, as_object):
    make = lambda: gymnasium.make_vec("Pendulum-v1", num_envs=2)
    with pytest.raises(FlashSACError, match="makes one single environment instead"):
        flashsac.train(make() if as_object else make, run_dir=str(tmp_path / "run"), quiet=True, **TINY)
    assert not (tmp_path / "run").exists()


def test_the_advice_for_unbounded_actions_works():
    with pytest.raises(UnsupportedSpace, match="unbounded") as caught:
        make_env(toy_envs.Unbounded, EnvConfig(num_envs=1))
    text = str(caught.value)
    advice = text[text.index("gymnasium.wrappers.") :].removesuffix(".")
    wrapped = lambda: eval(advice, {"gymnasium": gymnasium, "env": toy_envs.Unbounded()})
    check_env(make_env(wrapped, EnvConfig(num_envs=2)))


def test_a_time_limit_is_seen_without_a_spec():
    assert make_env(toy_envs.make_point, EnvConfig(num_envs=1)).spec.max_episode_steps is None
    assert make_env(toy_envs.make_point, EnvConfig(num_envs=1, max_episode_steps=5)).spec.max_episode_steps == 5
    wrapped = lambda: gymnasium.wrappers.OrderEnforcing(TimeLimit(toy_envs.PointEnv(), 7))
    assert make_env(wrapped, EnvConfig(num_envs=1)).spec.max_episode_steps == 7


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "cut"), [(20, 0), (30, 0), (31, 2)])
def test_training_says_that_evaluation_cut_episodes_only_where_it_did(tmp_path, capfd, monkeypatch, limit, cut):
    """The environment ends its episodes itself and names no limit; evaluation has patience for 30 steps."""
    monkeypatch.setattr(evaluation, "MAX_STEPS", 30)
    settings = TINY | dict(steps=120, eval=dict(every=60, episodes=2), run_dir=str(tmp_path / "run"))
    flashsac.train(lambda: toy_envs.PointEnv(limit=limit), **settings)
    said = f"note: {cut} of 2 evaluation episodes were cut after"
    assert capfd.readouterr().out.count(said) == (1 if cut else 0), "once in a run"


@pytest.mark.parametrize(
    "task", [toy_envs.make_point, toy_envs.PointEnv(), "tests.toy_envs:make_point", "gym:Unheard-v0"]
)
def test_settings_that_only_our_tasks_have_are_refused(tmp_path, task):
    settings = TINY | dict(run_dir=str(tmp_path / "run"))
    with pytest.raises(FlashSACError, match="--env.options are for tasks on envpool or genesis"):
        flashsac.train(task, **settings | dict(env=dict(num_envs=1, options=("gravity=1",))))
    with pytest.raises(FlashSACError, match="--env.engine envpool: .* without a choice of engines"):
        flashsac.train(task, **settings | dict(env=dict(num_envs=1, engine="envpool")))
    assert not (tmp_path / "run").exists()


def test_a_misspelt_function_is_answered_with_the_one_that_was_meant():
    with pytest.raises(UnknownTask, match=r"has no function 'make_pont' .* Did you mean make_point"):
        make_env("tests.toy_envs:make_pont", EnvConfig(num_envs=1))


def test_missing_packages_are_named_with_their_install_lines(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"not installed \(myosuite or envpool\).*a virtual environment of its own"):
        make_env("myosuite:myo-reach", EnvConfig(num_envs=1))
