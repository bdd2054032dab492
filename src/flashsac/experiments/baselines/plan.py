"""What a baseline's run is asked to do, and how config.json says it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from flashsac.config.checks import check, coerce
from flashsac.config.schema import TrainConfig, from_dict
from flashsac.errors import FlashSACError, RunDirectoryError, UnsupportedSpace
from flashsac.experiments.baselines.algorithms import Algorithm, find_algorithm, hyperparameters, limit_threads
from flashsac.experiments.baselines.source import NUMBERS_ONLY
from flashsac.runs.directory import read_record
from flashsac.runs.metrics import read_metrics
from flashsac.runs.provenance import version, versions
from flashsac.runs.seal import MALFORMED
from flashsac.sims.catalog import suite_of
from flashsac.sims.make import must_evaluate_apart
from flashsac.training.start import checked_device, settle

RECORDED = ("seed", "run_dir", "device", "video", "max_invalid", "env", "eval")
"""The settings of a FlashSAC run that a baseline has too, besides `steps`."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """A baseline's run."""

    algorithm: Algorithm
    task: str
    config: TrainConfig
    """The settings of a run. RECORDED and `steps` count; the others are FlashSAC's."""
    hyperparameters: dict[str, Any]
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Those of them that the user has set."""
    minutes: float | None = None
    """Minutes of training, in place of `steps`."""
    threads: int | None = None
    """CPU threads for the networks; by default as many as the library takes."""

    def record(self) -> dict[str, Any]:
        """What config.json says of this run. It names no setting that a baseline does not have."""
        values = dataclasses.asdict(self.config)
        length = {"steps": self.config.steps} if self.minutes is None else {"minutes": self.minutes}
        found = {name: version(name) for name in self.algorithm.packages}
        return {
            "algorithm": self.algorithm.name,
            "library": f"{self.algorithm.packages[0]} {found[self.algorithm.packages[0]]}",
            "hyperparameters": self.hyperparameters,
            "changes": self.changes,
            "config": length | {"threads": self.threads} | {name: values[name] for name in RECORDED},
            "versions": versions() | {name: number for name, number in found.items() if number},
        }


def new_plan(
    algorithm: str,
    task: str,
    config: TrainConfig,
    *,
    minutes: float | None = None,
    changes: tuple[str, ...] = (),
    threads: int | None = None,
) -> Plan:
    """A checked plan; raises MissingExtra if the library is not installed."""
    found = find_algorithm(algorithm)
    device = device_of(found, config.device)
    config = settle(task, dataclasses.replace(config, device=device, precision="fp32", compile="off"))
    if (suite := suite_of(task)) and suite.images:
        raise UnsupportedSpace(f"{task} shows images. {NUMBERS_ONLY}")
    if config.eval.every != 0 and must_evaluate_apart(task, config.env):
        raise FlashSACError(
            f"{task} allows one simulation in a process, so the baselines cannot evaluate on it: --eval.every 0."
        )
    limit_threads(threads)
    values = hyperparameters(found, changes)
    given = {name: values[name] for name in (text.partition("=")[0] for text in changes)}
    return Plan(found, task, config, values, given, minutes, threads)


def device_of(algorithm: Algorithm, device: str) -> str:
    """The device of the networks and of simulators that take one. Where JAX computes, all else is on the CPU."""
    if algorithm.takes_device:
        return checked_device(device)
    if device not in ("auto", "cpu"):
        raise FlashSACError(
            f"--device {device}: {algorithm.name} computes in JAX. Leave --device out; JAX_PLATFORMS=cuda chooses the GPU."
        )
    return "cpu"


def recorded_plan(run_dir: str | Path) -> tuple[Plan, dict[str, Any]]:
    """The plan of an existing run, and what its config.json holds."""
    record = read_record(run_dir)
    try:
        settings = {"device": "cpu"} | record["config"]
        minutes, threads = settings.pop("minutes", None), settings.pop("threads", None)
        config = coerce(from_dict(settings))
        check(config)
        algorithm = find_algorithm(record["algorithm"])
        limit_threads(threads)
        given = dict(record["hyperparameters"])
        changed = given.keys() ^ hyperparameters(algorithm, ()).keys()
        if changed:
            raise ValueError(f"its hyperparameters differ: {', '.join(sorted(changed))}")
        config = dataclasses.replace(config, run_dir=str(run_dir))
        changes = dict(record.get("changes", {}))
        return Plan(algorithm, str(record["task"]), config, given, changes, minutes, threads), record
    except MALFORMED as error:
        raise RunDirectoryError(
            f"{run_dir} was made by another version of flashsac or of its library ({error!s:.200}). Begin it again."
        ) from error


def minutes_of(run_dir: str | Path) -> float:
    """The minutes that a run spent training."""
    rows = read_metrics(Path(run_dir) / "metrics.csv")
    if not rows or "seconds" not in rows[-1]:
        raise FlashSACError(f"{run_dir} has no rows in metrics.csv yet. Train it first, or give --minutes.")
    return rows[-1]["seconds"] / 60
