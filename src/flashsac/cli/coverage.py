"""`flashsac coverage`: what a run's replay covers, beside what its final policy covers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro

from flashsac.cli.parsing import Run, SimulatorOptions, TrustRun, parse
from flashsac.errors import FlashSACError, UsageError
from flashsac.system.limits import AtLeast, check_limits

SHOWN = 3
"""How many runs a message names."""


@dataclasses.dataclass(frozen=True)
class CoverageOptions:
    """Draw the joint density of two numbers in a run's replay, and in as many steps of its final policy.

    Without --x and --y it takes the observations and actions that vary most."""

    run: Run
    """Run directory, with the replay of its newest checkpoint."""
    x: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="COLUMN")] = ()
    """Number along the horizontal axis: obs:3 or action:0. Repeat --x and --y for more pairs."""
    y: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="COLUMN")] = ()
    """Number along the vertical axis, one for each --x."""
    transitions: Annotated[int | None, AtLeast(1)] = None
    """Transitions to compare, drawn from the replay (default: all of it)."""
    seed: int = 12345
    """Seed of the rollout."""
    out: str | None = None
    """Directory of coverage.json and coverage.png (default: RUN/coverage)."""
    task: str | None = None
    """Task to roll out on: suite:task, or module:function (default: the training's task, with its --env.options)."""
    trust_run: TrustRun = False
    env: SimulatorOptions = dataclasses.field(default_factory=SimulatorOptions)


def main(arguments: list[str]) -> int:
    """The command."""
    options = parse(CoverageOptions, arguments, "coverage", question="which run? usage: flashsac coverage RUN")
    if len(options.x) != len(options.y):
        raise UsageError(f"there are {len(options.x)} --x and {len(options.y)} --y: each pair needs one of both.")
    check_limits(options)
    from flashsac.experiments.coverage import coverage, parse_column
    from flashsac.policies.find import locate_policy
    from flashsac.runs.layout import run_of

    pairs = [(parse_column(x), parse_column(y)) for x, y in zip(options.x, options.y, strict=True)]
    run = run_of(Path(options.run))
    if run is None:
        raise FlashSACError(
            f"{options.run} is no run directory. Coverage needs one, because the replay lies there."
            f"{_runs_inside(Path(options.run))}"
        )
    found = locate_policy(
        run, options.task, "last", options.env.options, options.env.engine, trust_run=options.trust_run
    )
    out = Path(options.out) if options.out else run / "coverage"
    say = lambda line: print(line, flush=True)
    for file in coverage(run, found, pairs, out, transitions=options.transitions, seed=options.seed, say=say):
        print(f"wrote {file}")
    return 0


def _runs_inside(path: Path) -> str:
    """The end of a message that names the runs below a directory."""
    from flashsac.experiments.recorded import run_directories

    found = [str(run) for run in run_directories(path)]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f" There are some inside: {', '.join(found[:SHOWN])}{more}." if found else ""
