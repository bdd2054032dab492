"""`flashsac bench`: speed and memory on this machine."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal, get_args

from flashsac.cli.parsing import parse
from flashsac.config.schema import Precision, PresetName
from flashsac.errors import FlashSACError
from flashsac.system.limits import Above, check_limits

BenchPart = Literal["update", "act", "replay", "memory", "simulator", "loop", "start"]


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """Measure speed and memory on this machine. Run nothing else meanwhile. It takes about ten minutes the first
    time."""

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


def main(arguments: list[str]) -> int:
    """The command."""
    options = parse(BenchOptions, arguments, "bench")
    import torch

    from flashsac.bench import figures
    from flashsac.bench import measure as bench
    from flashsac.training.compile import compiler_missing

    check_limits(options)
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
