"""`flashsac deploy`: an exported policy on a robot. Needs onnxruntime and NumPy, never torch."""

from __future__ import annotations

import dataclasses
import signal
from typing import Annotated

import tyro

from flashsac.cli.parsing import parse
from flashsac.deploy import report
from flashsac.deploy.deployment import SIGNALS, DeployOptions, deploy, exit_code, interrupt
from flashsac.deploy.onnx_policy import OnnxPolicy


@dataclasses.dataclass(frozen=True)
class DeployCommand:
    """Run an exported policy at a fixed rate, with every safety limit on, and report how it went."""

    policy: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="POLICY.onnx")]
    """Policy that `flashsac export` has written."""
    options: Annotated[DeployOptions, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="")]


def main(arguments: list[str]) -> int:
    """The command."""
    question = "which policy? usage: flashsac deploy POLICY.onnx --robot mujoco"
    command = parse(DeployCommand, arguments, "deploy", question=question)
    path, options = command.policy, command.options
    if options.describe:
        print(report.describe(OnnxPolicy(path).info))
        return 0
    for name in SIGNALS:
        signal.signal(name, interrupt)
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # Ctrl-Z: a loop that stands still cannot catch a robot that falls
    rows = deploy(path, options)  # files first: whoever reads the lines below may be gone
    print(report.table(rows))
    for written in (options.report, options.log, options.video):
        if written:
            print(f"wrote {written}")
    return exit_code(rows)
