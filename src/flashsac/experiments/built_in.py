"""The sweeps that come with flashsac: the paper's ablations and benchmarks, each also in a size for a laptop."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from flashsac.config.presets import LAPTOP, PARALLEL
from flashsac.errors import FlashSACError
from flashsac.experiments.settings import Settings
from flashsac.experiments.sweep import DEFAULT_VARIANT, PAPER_STRIDE, Sweep, Variant, seeds_from_count
from flashsac.sims.catalog import tasks
from flashsac.system.suggest import did_you_mean

SEEDS = seeds_from_count(5, PAPER_STRIDE)
LAPTOP_SEEDS = seeds_from_count(3, PAPER_STRIDE)
LAPTOP_STEPS = 30_000
ABLATION_TASKS = (
    "isaaclab:Isaac-Repose-Cube-Allegro-Direct-v0",
    "isaaclab:Isaac-Repose-Cube-Shadow-Direct-v0",
    "isaaclab:Isaac-Velocity-Flat-G1-v0",
    "isaaclab:Isaac-Velocity-Rough-G1-v0",
)
LAPTOP_ABLATION_TASKS = ("mujoco:HalfCheetah-v4", "dmc:walker-walk")
BENCHMARKS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "mujoco": (("mujoco",), ("mujoco:HalfCheetah-v4", "mujoco:Hopper-v4", "mujoco:Walker2d-v4")),
    "dmc": (("dmc",), ("dmc:cartpole-balance_sparse", "dmc:pendulum-swingup", "dmc:humanoid-stand")),
    "myosuite": (("myosuite",), ("myosuite:myo-reach", "myosuite:myo-pose")),
    "humanoidbench": (("humanoidbench",), ("humanoidbench:h1-stand-v0", "humanoidbench:h1-walk-v0")),
    "gpu": (("isaaclab", "playground", "maniskill", "genesis"), ("playground:G1JoystickFlatTerrain",)),
    "vision": (("dmc-vision",), ("dmc-vision:walker-run", "dmc-vision:cheetah-run")),
}
"""The suites of each of the paper's benchmarks, and the tasks of its laptop size."""
LAPTOP_VISION: Settings = {
    "steps": 20_000,
    "agent.batch_size": 64,
    "agent.updates_per_transition": 0.25,
    "agent.warmup": 2_000,
    "agent.actor_width": 64,
    "agent.critic_width": 128,
    "agent.image_channels": 16,
    "env.image_size": 48,
    "replay.capacity": 20_000,
    "eval.every": 5_000,
    "eval.episodes": 5,
}
"""The preset laptop has no images; this is the preset vision, made small."""


def architecture(laptop: bool) -> Sweep:
    """The six steps from a plain network to FlashSAC, each with one component more, and their diagnostics.

    The first two have no BatchNorm, so current and next states share no statistics. They evaluate them apart, as a
    plain SAC does."""
    settings: Settings = {
        "agent.residual": False,
        "agent.batch_norm": False,
        "agent.cross_batch": False,
        "agent.rms_norm": False,
        "agent.value": "scalar",
        "agent.reward_scaling": False,
        "agent.weight_projection": False,
    }
    added: dict[str, Settings] = {
        "a_MLP": {},
        "b_residual": {"agent.residual": True},
        "c_batchnorm": {"agent.batch_norm": True, "agent.cross_batch": True},
        "d_rmsnorm": {"agent.rms_norm": True},
        "e_distcritic": {"agent.value": "categorical", "agent.reward_scaling": True},
        "f_flashSAC": {"agent.weight_projection": True},
    }
    variants = []
    for name, more in added.items():
        settings = settings | more
        variants.append(Variant(name, settings))
    sweep = _ablation("architecture", variants, laptop, "components added one after the other, to a plain MLP")
    every = LAPTOP_STEPS // 6 if laptop else PARALLEL.steps // 20
    return dataclasses.replace(sweep, settings=sweep.settings | {"diagnostics.every": every})


def exploration(laptop: bool) -> Sweep:
    """The standard deviation of the entropy target, and noise that is never repeated."""
    variants = [Variant(f"target_std_{std:g}", {"agent.target_std": std}) for std in (0.05, 0.1, 0.2, 0.25)]
    variants.insert(2, Variant(DEFAULT_VARIANT, {}))
    variants.append(Variant("no_noise_repeat", {"agent.noise_max_repeat": 1}))
    return _ablation(
        "exploration", variants, laptop, "entropy target 0.05 to 0.25 (flashsac has 0.15), noise repetition off"
    )


def scaling(laptop: bool) -> Sweep:
    """Batch, buffer, width, depth and update ratio, one at a time."""
    if laptop:
        base, buffers = LAPTOP.agent, [LAPTOP_STEPS // 10, LAPTOP_STEPS // 4, LAPTOP_STEPS // 2]
        batches, depths, ratios = [32, 64, 256, 512], [1, 3], [0.25, 0.5, 2.0]
        factors = [0.5, 2.0]
        ratio_names = {ratio: f"utd{base.updates_per_transition * ratio:g}" for ratio in ratios}
    else:
        base, buffers = PARALLEL.agent, [100_000, 1_000_000, 50_000_000]
        batches, depths, ratios = [512, 1024, 4096, 8192], [1, 3, 4], [0.25, 0.5, 2.0, 4.0]
        factors = [0.25, 0.5, 2.0, 4.0]
        ratio_names = {0.25: "utd05", 0.5: "utd1", 2.0: "utd4", 4.0: "utd8"}  # updates for 1024 transitions
    widths = [(int(base.critic_width * factor), int(base.actor_width * factor)) for factor in factors]
    variants = [
        Variant(DEFAULT_VARIANT, {}),
        *(Variant(f"batch_{_short(size)}", {"agent.batch_size": size}) for size in batches),
        *(Variant(f"buffer_{_short(size)}", {"replay.capacity": size}) for size in buffers),
        *(
            Variant(f"width_critic{critic}_actor{actor}", {"agent.critic_width": critic, "agent.actor_width": actor})
            for critic, actor in widths
        ),
        *(Variant(f"depth_{blocks}block", {"agent.blocks": blocks}) for blocks in depths),
        *(
            Variant(name, {"agent.updates_per_transition": base.updates_per_transition * ratio})
            for ratio, name in ratio_names.items()
        ),
    ]
    sweep = _ablation("scaling", variants, laptop, "batch, buffer, width, depth and update ratio, one at a time")
    return dataclasses.replace(sweep, tasks=LAPTOP_ABLATION_TASKS[:1]) if laptop else sweep


def _ablation(name: str, variants: list[Variant], laptop: bool, about: str) -> Sweep:
    steps: Settings = {"steps": LAPTOP_STEPS} if laptop else {}
    return Sweep(
        name=f"ablation/{name}",
        tasks=LAPTOP_ABLATION_TASKS if laptop else ABLATION_TASKS,
        seeds=LAPTOP_SEEDS if laptop else SEEDS,
        preset="laptop" if laptop else "parallel",
        settings=steps | {"video": False},
        variants=tuple(variants),
        about=about,
    )


def _benchmark(name: str, laptop: bool) -> Sweep:
    """The paper's tasks of some suites, with the preset that each of them has."""
    suites, few = BENCHMARKS[name]
    all_of_them = tuple(task.full_name for task in tasks().values() if task.suite in suites and task.normal is not None)
    pixels = name == "vision"
    return Sweep(
        name=f"paper/{name}",
        tasks=few if laptop else all_of_them,
        seeds=LAPTOP_SEEDS if laptop else SEEDS,
        preset="vision" if pixels else "laptop" if laptop else None,
        settings=LAPTOP_VISION if laptop and pixels else {},
        about=f"the paper's tasks: {', '.join(suites)}",
    )


def _short(count: int) -> str:
    """Write a size as the paper's figures do: 0.5k and 1k for batches, 0.1M and 50M for buffers."""
    if count % 512 == 0 and count < 100_000:
        return f"{count / 1024:g}k"
    if count >= 100_000:
        return f"{count / 1e6:g}M"
    return f"{count / 1000:g}k" if count >= 1000 else str(count)


BUILT_IN: dict[str, Callable[[bool], Sweep]] = {
    "ablation/architecture": architecture,
    "ablation/scaling": scaling,
    "ablation/exploration": exploration,
    **{f"paper/{name}": functools.partial(_benchmark, name) for name in BENCHMARKS},
}
"""The function that makes each sweep, of full size or for a laptop."""


def built_in(name: str, *, laptop: bool) -> Sweep:
    """Return a built-in sweep."""
    if name not in BUILT_IN:
        hint = did_you_mean(name, BUILT_IN)
        raise FlashSACError(f"there is no built-in sweep {name}.{hint} `flashsac sweep --list` shows them.")
    return BUILT_IN[name](laptop)
