"""`flashsac deploy`: an exported policy on a robot. Needs onnxruntime and NumPy, never torch."""

from __future__ import annotations

from flashsac.cli.parsing import leading
from flashsac.deploy import report
from flashsac.deploy.deployment import DeployOptions, deploy, exit_code
from flashsac.deploy.onnx_policy import OnnxPolicy
from flashsac.deploy.signals import stop_on_signals
from flashsac.errors import FlashSACError


def main(arguments: list[str]) -> int:
    """The command."""
    import tyro

    path, rest = leading(arguments)
    options = tyro.cli(
        DeployOptions, args=rest, prog="flashsac deploy POLICY.onnx", config=(tyro.conf.OmitArgPrefixes,)
    )
    if path is None:
        raise FlashSACError("which policy? usage: flashsac deploy POLICY.onnx --robot mujoco")
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
