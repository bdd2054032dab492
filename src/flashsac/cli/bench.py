"""`flashsac bench`: speed and memory on this machine."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro

from flashsac.cli.parsing import TrustRun, parse
from flashsac.config.schema import Precision, PresetName
from flashsac.errors import FlashSACError
from flashsac.system.limits import Above, check_limits

BenchPart = Literal["update", "act", "replay", "memory", "simulator", "loop", "start"]


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """Measure speed and memory on this machine. Run nothing else meanwhile. It takes about ten minutes the first
    time.

    With --run, measure the simulation and the update of one run instead, with its own settings."""

    parts: tuple[BenchPart, ...] = get_args(BenchPart)
    """What to measure."""
    preset: tuple[PresetName, ...] = ("laptop", "single", "parallel")
    """Sizes of networks and batch."""
    precision: tuple[Precision, ...] | None = None
    """Number types of the matrix products (default: those that the device does not merely emulate)."""
    seconds: Annotated[float, Above(0)] = 10.0
    """Time for each measurement."""
    compile: Literal["on", "off"] = "on"
    """Compile, as training does."""
    out: str = "bench.csv"
    """CSV file for the figures."""
    compare: str | None = None
    """CSV file of an earlier `flashsac bench`. The table then shows each figure's ratio to the earlier one."""
    run: Annotated[str | None, tyro.conf.arg(metavar="RUN")] = None
    """Run directory to measure by the paper's wall-clock protocol. The result is its wall_clock.json. Of the other
    options only --seconds, --task and --trust-run count."""
    task: str | None = None
    """Your own environment that the run was begun with: module:function."""
    trust_run: TrustRun = False


def main(arguments: list[str]) -> int:
    """The command."""
    options = parse(BenchOptions, arguments, "bench")
    check_limits(options)
    return _bench_run(options, Path(options.run)) if options.run else _bench(options)


def _bench_run(options: BenchOptions, path: Path) -> int:
    from flashsac.bench.protocol import measure_run
    from flashsac.runs.layout import WALL_CLOCK

    measured, notes = measure_run(path, options.seconds, options.task, trust_run=options.trust_run)
    for what, amount, each in (
        ("simulation", measured.steps, measured.simulation_seconds_per_step),
        ("acting", measured.steps, measured.acting_seconds_per_step),
        ("update", measured.updates, measured.update_seconds),
    ):
        print(f"{what:<12} {amount:>13,} x {1e3 * each:>10.4f} ms  {amount * each:>12,.1f} s")
    print(f"{'by protocol':<42} {measured.protocol_seconds:>12,.1f} s")
    print(f"{'really taken':<42} {measured.real_seconds:>12,.1f} s (evaluations not counted)")
    for line in notes:
        print(line)
    print(f"wrote {path / WALL_CLOCK}")
    return 0


def _bench(options: BenchOptions) -> int:
    import torch

    from flashsac.bench import figures
    from flashsac.bench import measure as bench
    from flashsac.training.compile import compiler_missing

    if options.compare and Path(options.compare).resolve() == Path(options.out).resolve():
        raise FlashSACError(f"the figures in {options.compare} would be overwritten: name another file with --out.")
    try:
        earlier = figures.read_csv(Path(options.compare)) if options.compare else None
    except FileNotFoundError as error:
        raise FlashSACError(f"there is no file {options.compare} to compare with.") from error
    except (OSError, KeyError, ValueError) as error:
        raise FlashSACError(f"{options.compare} holds no figures of an earlier `flashsac bench`.") from error
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    problem = compiler_missing() if options.compile == "on" else None
    if problem:
        print(problem)
    compiled = options.compile == "on" and problem is None
    rows: list[figures.Row] = []
    for part in bench.Bench(options.preset, options.precision, options.seconds, compiled, device).run(options.parts):
        rows += part
        print(figures.table(part, earlier))
        figures.write_csv(rows, Path(options.out))
    for line in figures.caveats(rows, earlier):
        print(f"note: {line}")
    print(f"wrote {options.out}")
    return 0
