"""`flashsac resume`: the rest of an interrupted run."""

from __future__ import annotations

import dataclasses

from flashsac.cli.parsing import Run, TrustRun, parse
from flashsac.cli.ranks import NumberOfRanks, without_ranks, world
from flashsac.errors import FlashSACError

REFUSAL = """\
the settings of a run are fixed when it begins. A resumed run must end as if it had never stopped, and its learning \
rate follows a schedule over all its steps. For other settings begin a new run, which may start from this one: \
flashsac train TASK --from RUN ... For more steps: flashsac resume RUN --steps N"""


@dataclasses.dataclass(frozen=True)
class ResumeOptions:
    """Go on with an interrupted run from its last checkpoint, with the settings it was begun with.

    With --steps, continue a run in a new run directory."""

    run: Run
    """Run directory."""
    device: str | None = None
    """cpu, cuda, cuda:1, ...: where it goes on, if not on the device it was begun on."""
    task: str | None = None
    """Your own environment that the run was begun with: module:function."""
    trust_run: TrustRun = False
    steps: int | None = None
    """More steps: a new run that continues with everything up to so many steps in all. The learning-rate schedule is
    then that of a run of this length."""
    run_dir: str | None = None
    """Directory of the new run, with --steps (default: runs/TASK/DATE-seed)."""
    ranks: NumberOfRanks = 1


def main(arguments: list[str]) -> int:
    """The command."""
    question = "which run? usage: flashsac resume RUN"
    options = parse(ResumeOptions, arguments, "resume", question=question, refusal=REFUSAL)
    from flashsac.runs.directory import is_baseline, read_record

    if is_baseline(read_record(options.run)):
        if options.steps or options.run_dir or options.ranks > 1:
            raise FlashSACError(
                "a baseline goes on as it began, where it lies: leave --steps, --run-dir and --ranks out."
            )
        from flashsac.experiments.baselines.start import resume

        return resume(options.run, options.task, device=options.device, trust_run=options.trust_run)
    world(options.ranks)
    if options.ranks > 1:
        from flashsac.training.launch import launch

        return launch(["resume", *without_ranks(arguments)], options.ranks)
    from flashsac import api

    result = api.resume(
        options.run,
        options.task,
        device=options.device,
        trust_run=options.trust_run,
        steps=options.steps,
        new_run_dir=options.run_dir,
    )
    return result.exit_code
