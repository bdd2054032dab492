"""wall_clock.json of a run: its time by the paper's protocol, beside the time that it really took.

The protocol measures simulation and learning apart, each alone on the machine, and sums what the run did of both.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from pathlib import Path
from typing import Any

from flashsac.errors import FlashSACError
from flashsac.runs import layout
from flashsac.runs.metrics_file import Row
from flashsac.system.files import write_atomic


@dataclasses.dataclass(frozen=True)
class WallClock:
    """What was measured, and how much of it the run did."""

    task: str
    simulation_seconds_per_step: float
    """Time of one transition: the simulator's step, and storing it in the replay."""
    acting_seconds_per_step: float
    """Time of the policy for one transition."""
    update_seconds: float
    """Time of one update, drawing its batch included."""
    steps: int
    """Transitions of the run."""
    updates: int
    """Updates of the run."""
    real_seconds: float
    """Time that the run took, evaluations not counted."""
    num_envs: int
    precision: str
    compiled: bool
    device: str
    machine: str
    """The machine of the measurement."""
    measured_steps: int
    """Transitions in the measurement."""
    measured_updates: int
    """Updates in the measurement."""

    @property
    def interaction_seconds(self) -> float:
        """The paper's environment interaction time."""
        return self.steps * self.simulation_seconds_per_step

    @property
    def algorithm_seconds(self) -> float:
        """The paper's algorithm update time, which contains the policy's."""
        return self.steps * self.acting_seconds_per_step + self.updates * self.update_seconds

    @property
    def protocol_seconds(self) -> float:
        return self.interaction_seconds + self.algorithm_seconds

    def after(self, row: Row) -> WallClock:
        """The same measurement for the run as far as a row of its metrics.csv."""
        return dataclasses.replace(
            self, steps=int(row["step"]), updates=int(row["updates"]), real_seconds=row["seconds"]
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything that wall_clock.json holds."""
        sums = ("interaction_seconds", "algorithm_seconds", "protocol_seconds")
        return dataclasses.asdict(self) | {name: getattr(self, name) for name in sums}

    def write(self, run: Path) -> None:
        """Write the file. The caller holds the lock of the run."""
        write_atomic(run / layout.WALL_CLOCK, json.dumps(self.as_dict(), indent=2) + "\n")


def read_wall_clock(run: Path) -> WallClock | None:
    """Return what was measured for a run; None if nothing was."""
    file = run / layout.WALL_CLOCK
    try:
        content = json.loads(file.read_text())
        return WallClock(**{name: kind(content[name]) for name, kind in typing.get_type_hints(WallClock).items()})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise FlashSACError(f"{file} cannot be read. Measure it again: flashsac bench --run {run}") from error
