"""Settings that cannot work are refused by the flag that sets them; a saved config comes back as it was."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from flashsac.config.checks import check, coerce, with_time_to_learn
from flashsac.config.overrides import override
from flashsac.config.presets import PRESETS
from flashsac.config.schema import AgentConfig, EnvConfig, TrainConfig, from_dict, to_dict
from flashsac.errors import FlashSACError


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_passes_the_checks(name):
    check(PRESETS[name])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(steps=0), "--steps must be at least 1, not 0"),
        (dict(seed=-1), "--seed must lie in [0, 2147483647], not -1"),
        (dict(checkpoint_every=-1), "--checkpoint-every must be at least 0, not -1"),
        (dict(agent=dict(n_step=0)), "--agent.n-step must be at least 1, not 0"),
        (dict(agent=dict(batch_size=1)), "--agent.batch-size must be at least 2, not 1"),
        (dict(agent=dict(learning_rate=0.0)), "--agent.learning-rate must be above 0, not 0"),
        (dict(agent=dict(discount=1.0)), "--agent.discount must lie in [0, 1), not 1"),
        (dict(env=dict(history=-2)), "--env.history must be at least 0, not -2"),
        (dict(replay=dict(storage="tape")), "--replay.storage must be one of auto, ram, disk, device, not 'tape'"),
    ],
)
def test_a_value_that_cannot_work(changes, message):
    with pytest.raises(FlashSACError) as error:
        check(override(TrainConfig(), changes))
    assert str(error.value).startswith(message)


def test_all_values_that_cannot_work_are_named_at_once():
    config = TrainConfig(steps=0, agent=AgentConfig(n_step=0), precision="fp8")  # type: ignore[arg-type]
    with pytest.raises(FlashSACError, match=r"^--steps .*; --agent.n-step .*; --precision .*\.$"):
        check(config)


def test_values_from_python_get_the_types_of_the_command_line():
    config = coerce(TrainConfig(steps=2e4, run_dir=Path("runs/a"), log_every=1e2))  # type: ignore[arg-type]
    assert (config.steps, config.run_dir, config.log_every) == (20_000, "runs/a", 100)
    assert isinstance(config.steps, int)
    with pytest.raises(FlashSACError, match=r"--agent.warmup must be a whole number, not 2.5"):
        coerce(TrainConfig(agent=AgentConfig(warmup=2.5)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("steps", "warmup"), [(1, 0), (300, 150), (5_000, 2_500), (5_001, 5_000)])
def test_a_warm_up_that_lasts_the_whole_run_is_shortened_to_half_of_it(steps, warmup):
    config = with_time_to_learn(override(PRESETS["laptop"], dict(steps=steps)))
    assert config.agent.warmup == warmup
    check(config)


def test_a_config_survives_json():
    config = TrainConfig(steps=7, env=EnvConfig(num_envs=3, options=("a=1", "b=2")))
    assert from_dict(json.loads(json.dumps(to_dict(config)))) == config
    assert from_dict({}) == TrainConfig()
    for unknown in ({"unheard_of": 1}, {"env": {"unheard_of": 1}}):
        with pytest.raises(TypeError, match="unheard_of"):
            from_dict(unknown)


def test_overrides_change_only_what_they_name():
    config = override(PRESETS["laptop"], dict(steps=5, agent=dict(n_step=3)))
    expected = dataclasses.replace(PRESETS["laptop"].agent, n_step=3)
    assert config == dataclasses.replace(PRESETS["laptop"], steps=5, agent=expected)
    with pytest.raises(FlashSACError, match=r"no setting 'n_steps' here. Did you mean agent=dict\(n_step=...\)\?"):
        override(TrainConfig(), dict(n_steps=3))
