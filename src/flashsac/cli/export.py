"""`flashsac export`: a trained policy as ONNX, checked against the policy before it is kept."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from flashsac.cli.parsing import Run, TrustRun, parse
from flashsac.errors import FlashSACError, MissingExtra
from flashsac.system.files import check_writable
from flashsac.system.limits import AtLeast, check_limits


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """Write a trained policy as ONNX: observation in, action in [-1, 1] out, everything a robot needs in the metadata."""

    run: Run
    """Run directory, checkpoint or policy file."""
    out: str | None = None
    """File to write (default: RUN/policy.onnx)."""
    torchscript: bool = False
    """Write TorchScript (.pt) beside it, for one observation at a time."""
    observations: Annotated[int, AtLeast(1)] = 10_000
    """Observations from the simulator to compare it with the policy on (fewer where they are images)."""
    checkpoint: str | None = None
    """Which policy of a run: best, last, or a step (default: the best, else the last)."""
    task: str | None = None
    """Where observations come from, if not from the task it was trained on: suite:task, or module:function of your own."""
    trust_run: TrustRun = False


def main(arguments: list[str]) -> int:
    """The command."""
    question = "which run? usage: flashsac export RUN --out policy.onnx"
    options = parse(ExportOptions, arguments, "export", question=question)
    from flashsac.policies.export import count_rows, export, recorded
    from flashsac.policies.find import policy_file, trained_steps
    from flashsac.policies.policy import read_policy
    from flashsac.robots.catalog import robot_of

    run = Path(options.run)
    out = Path(options.out) if options.out else (run if run.is_dir() else run.parent) / "policy.onnx"
    _check(options, out)
    file = policy_file(run, options.checkpoint)
    policy = read_policy(file)
    obs, source = recorded(policy, run, options.observations, options.task, trust_run=options.trust_run)
    worst = export(policy, out, obs, step=trained_steps(file), torchscript=options.torchscript)
    about = robot_of(policy.task)
    print(f"policy: {file}, {policy.task}" + (f", for {about.name}" if about else ", no robot is known for it"))
    for written, difference in worst.items():
        print(f"wrote {written}; largest difference from the policy {difference:.1e} over {count_rows(obs):,} {source}")
    if about:
        print(f"next:\n  flashsac deploy {out} --robot mujoco")
    return 0


def _check(options: ExportOptions, out: Path) -> None:
    """Refuse what cannot work before the simulator starts, which takes minutes."""
    check_limits(options)
    if out.suffix != ".onnx":
        raise FlashSACError(f"--out {out}: an exported policy's name ends in .onnx.")
    check_writable("--out", out)
    try:  # torch's exporter needs the first two, and would say so less kindly
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            f'export needs onnx, onnxscript and onnxruntime ({error}): pip install "flashsac[export]"'
        ) from None
