"""Learners, batches and noise that are the same for one process with the whole batch and for several with shares."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from flashsac.config.schema import AgentConfig
from flashsac.core.optimizer import adam_step_size
from flashsac.core.sync import ALONE, Sync
from flashsac.core.update import Learner, StepSizes, UpdateNoise
from flashsac.types import Batch, EnvSpec, Obs, Pixels

UPDATES = 50
ROWS = 24
"""Of the whole batch; it can be shared by two and by three."""
ACTIONS = 3
BOUNDS = ((-1.0,) * ACTIONS, (1.0,) * ACTIONS)


class Case(NamedTuple):
    """What is learned from, and by which networks."""

    spec: EnvSpec
    config: AgentConfig
    dtypes: tuple[str, ...] = ("float32", "float64")


SMALL = AgentConfig(actor_width=8, critic_width=16, context_latent=4, image_channels=4, image_features=5)
STATE = EnvSpec(1, {"actor": 5}, ACTIONS, *BOUNDS, None)
CASES = {
    "state": Case(STATE, SMALL),
    "privileged": Case(dataclasses.replace(STATE, obs={"actor": 5, "critic": 7}), SMALL),
    "scalar": Case(STATE, dataclasses.replace(SMALL, value="scalar", cross_batch=False)),
    "context": Case(dataclasses.replace(STATE, obs={"actor": 5, "critic": 7}, history=3, velocity=(1, 4)), SMALL),
    # Pixels are scaled in float32, whatever the rest is.
    "images": Case(dataclasses.replace(STATE, pixels=Pixels(3, 24, 24, 3)), SMALL, ("float32",)),
}
Drawn = tuple[Batch, Tensor, UpdateNoise, StepSizes]


def learner_of(case: Case, dtype: torch.dtype, sync: Sync = ALONE) -> Learner:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        torch.manual_seed(0)
        return Learner(case.spec, case.config, torch.device("cpu"), dtype, sync)
    finally:
        torch.set_default_dtype(before)


def batches(case: Case, dtype: torch.dtype, count: int) -> Iterator[Drawn]:
    """Every batch whole, with its noise. The rows differ much, so that shares have other statistics than the whole."""
    learner = learner_of(case, dtype)
    generator = torch.Generator().manual_seed(1)
    normal = lambda *shape: torch.randn(*shape, generator=generator).to(dtype)
    level = torch.linspace(-3, 30, ROWS, dtype=dtype)[:, None]
    for index in range(count):

        def look() -> Obs:
            obs: Obs = {group: normal(ROWS, width) + level for group, width in case.spec.obs.items()}
            if case.spec.history:
                obs["history"] = normal(ROWS, case.spec.history * case.spec.obs["actor"]) + level
            if case.spec.pixels:
                obs["pixels"] = torch.randint(256, (ROWS, *case.spec.pixels.shape), generator=generator).to(torch.uint8)
            return obs

        batch = Batch(
            look(), torch.tanh(normal(ROWS, ACTIONS)), normal(ROWS), torch.full((ROWS,), 0.97, dtype=dtype), look()
        )
        noise = UpdateNoise(learner.transform.draw(ROWS, generator), *normal(2, ROWS, ACTIONS))
        sizes = StepSizes(*(adam_step_size(3e-4, n).to(dtype) for n in (index // 2 + 1, index + 1)))
        yield batch, torch.ones((), dtype=dtype), noise, sizes


def share_of(drawn: Drawn, rank: int, ranks: int) -> Drawn:
    """The rows of one rank."""
    batch, scale, noise, sizes = drawn
    rows = slice(rank * ROWS // ranks, (rank + 1) * ROWS // ranks)
    cut = lambda x: {name: part[rows] for name, part in x.items()} if isinstance(x, dict) else x[rows]
    shift = noise.transform[:, rows] if noise.transform.ndim == 3 else noise.transform  # (2, rows, 2) for images
    return Batch(*map(cut, batch)), scale, UpdateNoise(shift, *map(cut, noise[1:])), sizes


def update(units: Sequence[Callable], index: int, drawn: Drawn) -> None:
    """The update number `index`. The second unit leaves the actor alone."""
    units[index % 2](*drawn)
