"""`flashsac export`: a trained policy as ONNX, checked against the policy before it is kept."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from flashsac.cli.parsing import Run, TrustRun, parse
from flashsac.system.limits import AtLeast, check_limits


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Write a trained policy as ONNX: observation in, action in [-1, 1] out, everything a robot needs in the
    metadata."""

    run: Run
    """Run directory, checkpoint or policy file."""
    out: str | None = None
    """File to write (default: RUN/policy.onnx)."""
    torchscript: bool = False
    """Write TorchScript (.pt) beside it, for one observation at a time."""
    observations: Annotated[int, AtLeast(1)] = 10_000
    """Observations from the simulator on which the file is compared with the policy (fewer if they are images)."""
    checkpoint: str | None = None
    """Which policy of a run: best, last, or a step (default: the best, else the last)."""
    task: str | None = None
    """Task that observations come from: suite:task, or module:function of your own (default: the training's task)."""
    trust_run: TrustRun = False


def main(arguments: list[str]) -> int:
    """The command."""
    question = "which run? usage: flashsac export RUN --out policy.onnx"
    options = parse(ExportOptions, arguments, "export", question=question)
    check_limits(options)
    from flashsac.policies.export import export_run
    from flashsac.robots.catalog import robot_of

    exported = export_run(
        Path(options.run),
        options.task,
        Path(options.out) if options.out else None,
        observations=options.observations,
        checkpoint=options.checkpoint,
        torchscript=options.torchscript,
        trust_run=options.trust_run,
    )
    about = robot_of(exported.task)
    robot = f", for {about.name}" if about else ", no robot is known for it"
    print(f"policy: {exported.policy_file}, {exported.task}{robot}")
    compared = f"{exported.observations:,} {exported.source}"
    for written, difference in exported.differences.items():
        print(f"wrote {written}; largest difference from the policy {difference:.1e} over {compared}")
    if about:
        film = exported.file.with_name(f"{exported.file.stem}-mujoco.mp4")  # not the one that `play` may have written
        print(f"next:\n  flashsac deploy {exported.file} --robot mujoco --command 0.5 0 0 --video {film}")
    return 0
