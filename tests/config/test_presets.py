"""The paper's tables, typed by hand."""

from __future__ import annotations

import pytest

import flashsac

PARALLEL = dict(envs=1024, capacity=10_000_000, warmup=100_000, batch=2048, ratio=2 / 1024, n=1, precision="auto")
SINGLE = dict(envs=1, capacity=1_000_000, warmup=10_000, batch=512, ratio=1.0, n=1, precision="fp32")
VISION = SINGLE | dict(batch=256, ratio=0.5, n=3)
SUITES = {
    "isaaclab": PARALLEL | dict(n=3, discount=0.99, steps=50_000_000),
    "playground": PARALLEL | dict(discount=0.97, steps=50_000_000),
    "maniskill": PARALLEL | dict(discount=0.9, steps=50_000_000),
    "genesis": PARALLEL | dict(discount=0.95, steps=50_000_000),
    "myosuite": SINGLE | dict(discount=0.95, steps=1_000_000),
    "humanoidbench": SINGLE | dict(discount=0.99, steps=1_000_000),
    "dmc": SINGLE | dict(discount=0.99, steps=1_000_000),
    "mujoco": SINGLE | dict(discount=0.99, steps=1_000_000),
    "dmc-vision": VISION | dict(discount=0.99, steps=500_000),  # of two steps of the environment each
}


@pytest.mark.parametrize("suite", SUITES)
def test_what_differs_between_suites(suite):
    config = flashsac.configure(f"{suite}:any")
    assert SUITES[suite] == dict(
        envs=config.env.num_envs,
        capacity=config.replay.capacity,
        warmup=config.agent.warmup,
        batch=config.agent.batch_size,
        ratio=config.agent.updates_per_transition,
        n=config.agent.n_step,
        discount=config.agent.discount,
        precision=config.precision,
        steps=config.steps,
    )
    if suite in ("myosuite", "humanoidbench", "dmc", "mujoco"):
        assert config.eval.episodes == 50


@pytest.mark.parametrize("suite", SUITES)
def test_what_is_the_same_for_all(suite):
    config = flashsac.configure(f"{suite}:any")
    expected = dict(
        actor_width=128,
        critic_width=256,
        blocks=2,
        critics=2,
        residual=True,
        batch_norm=True,
        rms_norm=True,
        weight_projection=True,
        cross_batch=True,
        reward_scaling=True,
        reward_guard=True,
        value="categorical",
        value_max=5.0,
        atoms=101,
        learning_rate=3e-4,
        learning_rate_end=1.5e-4,
        target_rate=0.01,
        actor_delay=2,
        initial_temperature=0.01,
        target_std=0.15,
        noise_max_repeat=16,
        noise_exponent=2.0,
        image_channels=32,
        image_features=50,
        image_shift=4,
    )
    assert expected.items() <= vars(config.agent).items()
    assert (config.env.image_size, config.env.frame_stack) == (84, 3)
