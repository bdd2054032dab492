"""`flashsac deploy`: an exported policy on a robot. It needs onnxruntime and NumPy, never torch."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import tyro

from flashsac.cli.parsing import parse
from flashsac.deploy import report
from flashsac.deploy.deployment import DeployOptions, deploy, exit_code
from flashsac.deploy.onnx_policy import OnnxPolicy
from flashsac.deploy.signals import stop_on_signals


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
    stop_on_signals()
    rows = deploy(path, options)  # files first: whoever reads the lines below may be gone
    print(report.table(rows))
    for written in (options.report, options.log, options.video):
        if written:
            print(f"wrote {written}")
    return exit_code(rows)
