"""A sweep: tasks x variants x seeds. Each combination is a trial, and each trial is an ordinary run directory."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from flashsac.config.schema import PresetName
from flashsac.errors import FlashSACError
from flashsac.experiments.folders import trial_folder
from flashsac.experiments.settings import Settings, config_of
from flashsac.experiments.space import Space
from flashsac.experiments.trial import Trial, check_of_baseline
from flashsac.sims.user_names import check_own_task

DEFAULT_VARIANT = "flashsac"
"""The name of the settings as they are, in a sweep that varies nothing."""
PAPER_STRIDE = 1000
"""The paper's seeds are 0, 1000, 2000, ..."""


@dataclasses.dataclass(frozen=True)
class Variant:
    """Settings under a name, to be compared with others."""

    name: str
    settings: Settings
    algorithm: str | None = None
    """The baseline to train, by its name in `flashsac baseline`; None for FlashSAC."""


@dataclasses.dataclass(frozen=True)
class Sweep:
    """What is trained."""

    name: str
    tasks: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    preset: PresetName | None = None
    """The preset of all trials (default: the one that each task has)."""
    settings: Settings = dataclasses.field(default_factory=dict)
    """Settings of all trials. Those of a variant go before them."""
    variants: tuple[Variant, ...] = (Variant(DEFAULT_VARIANT, {}),)
    about: str = ""
    space: Space = dataclasses.field(default_factory=dict)
    """The settings that a search chooses, each with its values. Without any there is no search."""
    search_trials: int = 20
    """How many combinations a search tries."""

    def __len__(self) -> int:
        return len(self.tasks) * len(self.variants) * len(self.seeds)

    def with_variants(self, variants: Sequence[Variant]) -> Sweep:
        return dataclasses.replace(self, variants=tuple(variants))

    def trials(self, out: Path) -> list[Trial]:
        """Return every trial, each checked. The first seed of all comes first, so that part of a sweep compares too."""
        for task in self.tasks:
            check_own_task(task)
        trials = [
            Trial(
                task=task,
                variant=variant.name,
                seed=seed,
                path=str(trial_folder(out, task, variant.name, seed)),
                log=f"{trial_folder(out / 'logs', task, variant.name, seed)}.log",
                preset=self.preset,
                settings=self.settings | variant.settings,
                algorithm=variant.algorithm,
            )
            for seed in self.seeds
            for task in self.tasks
            for variant in self.variants
        ]
        for trial in trials[: len(self.tasks) * len(self.variants)]:
            try:
                config_of(trial.task, trial.preset, trial.settings)
            except FlashSACError as error:
                raise FlashSACError(f"variant {trial.variant} on {trial.task}: {error}") from error
        if not trials:
            raise FlashSACError(f"the sweep {self.name} has no trials: it needs at least one task and one seed.")
        path, count = Counter(trial.path for trial in trials).most_common(1)[0]
        if count > 1:
            raise FlashSACError(f"{count} trials of the sweep {self.name} would share {path}. Give each another name.")
        return trials


def seeds_from_count(count: int, stride: int = 1) -> tuple[int, ...]:
    """Return so many seeds from 0 on."""
    return tuple(range(0, count * stride, stride))


def crossed(variants: Sequence[Variant], varied: dict[str, list[object]]) -> tuple[Variant, ...]:
    """Return every variant with every combination of the varied settings."""
    out = []
    for variant in variants:
        if variant.algorithm is not None:
            check_of_baseline("vary", variant.name, varied)
        for values in itertools.product(*varied.values()):
            names = [f"{name.rpartition('.')[2]}_{_word(v)}" for name, v in zip(varied, values, strict=True)]
            before = [] if variant.name == DEFAULT_VARIANT and names else [variant.name]
            settings = variant.settings | dict(zip(varied, values, strict=True))
            out.append(dataclasses.replace(variant, name="-".join([*before, *names]), settings=settings))
    return tuple(out)


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "+".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
