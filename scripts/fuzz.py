"""Feed a parser with damaged input until the time is over: python scripts/fuzz.py TARGET --minutes 10

TARGET is a file of tests/fuzz, or "all". Whatever the parser raises besides a FlashSACError, an input that takes longer
than --slow seconds, or memory beyond --megabytes is a finding. Findings are kept in --out; the exit code is 1 if there
are any.
"""

from __future__ import annotations

import argparse
import random
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.fuzz.mutate import mutate, targets  # noqa: E402


class TooSlow(BaseException):
    """The parser did not come back in time."""


def main() -> int:
    known = targets()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=[*known, "all"])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slow", type=int, default=20, help="seconds that one input may take")
    parser.add_argument("--megabytes", type=int, default=4096, help="memory that the process may add")
    parser.add_argument("--out", type=Path, default=Path("fuzz-findings"))
    options = parser.parse_args()
    names = list(known) if options.target == "all" else [options.target]
    return 1 if sum(fuzz(name, known[name], options) for name in names) else 0


def fuzz(name: str, target, options: argparse.Namespace) -> int:
    """The number of different findings."""
    source, seeds = random.Random(options.seed), target.seeds()
    for data in seeds:
        target.attack(data)  # imports what it needs
    limit = _address_space() + options.megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
    signal.signal(signal.SIGALRM, _too_slow)
    count, findings, slowest = 0, set(), 0.0
    end = time.monotonic() + 60 * options.minutes
    while time.monotonic() < end:
        data = mutate(source.choice(seeds), source)
        since = time.monotonic()
        signal.alarm(options.slow)
        try:
            target.attack(data)
        except (Exception, TooSlow) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            finding = (type(error).__name__, where.filename, where.lineno)
            if finding not in findings:
                findings.add(finding)
                options.out.mkdir(parents=True, exist_ok=True)
                file = options.out / f"{name}-{len(findings)}"
                file.write_bytes(data)
                print(f"{name}: finding {len(findings)}, input in {file}\n{traceback.format_exc()}", flush=True)
        finally:
            signal.alarm(0)
        slowest, count = max(slowest, time.monotonic() - since), count + 1
    print(
        f"{name}: {count:,} inputs in {options.minutes:g} minutes, slowest {slowest:.2f} s, {len(findings)} findings",
        flush=True,
    )
    return len(findings)


def _too_slow(*_: object) -> None:
    raise TooSlow


def _address_space() -> int:
    """Bytes of address space in use; only Linux tells."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 2**40


if __name__ == "__main__":
    sys.exit(main())
