"""`flashsac resume`: the rest of an interrupted run."""

from __future__ import annotations

import dataclasses

from flashsac.cli.parsing import Run, TrustRun, parse

REFUSAL = """\
the settings of a run are fixed when it begins. Its learning rate follows a schedule over all its steps, and resumed it must come \
to the same as if it had never stopped. For other settings or more steps begin a new run: flashsac train TASK ... --run-dir ANOTHER"""


@dataclasses.dataclass(frozen=True)
class ResumeOptions:
    """Goes on with an interrupted run from its last checkpoint, with the settings it was begun with."""

    run: Run
    """Run directory."""
    device: str | None = None
    """cpu, cuda, cuda:1, ...: where it goes on, if not on the device it was begun on."""
    task: str | None = None
    """Your own environment that the run was begun with: module:function."""
    trust_run: TrustRun = False


def main(arguments: list[str]) -> int:
    """The command."""
    question = "which run? usage: flashsac resume RUN"
    options = parse(ResumeOptions, arguments, "resume", question=question, refusal=REFUSAL)
    from flashsac import api

    return api.resume(options.run, options.task, device=options.device, trust_run=options.trust_run).exit_code
