"""Whether two runs came to the same: metrics row by row but for times, and the newest policy's weights, bit for bit.

python benchmarks/same_run.py RUN OTHER --out FILE.csv      writes what was compared; exits with 1 if anything differs
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import sys
from pathlib import Path

from flashsac.policies.find import load_policy
from flashsac.runs.metrics import TIMINGS, read_metrics


def without_times(run: Path) -> list[dict[str, float]]:
    rows = read_metrics(run / "metrics.csv")
    return [{name: value for name, value in row.items() if name not in TIMINGS} for row in rows]


def fingerprint(run: Path) -> str:
    weights = load_policy(run, "last").weights()
    parts = (name.encode() + tensor.cpu().numpy().tobytes() for name, tensor in sorted(weights.items()))
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    runs = (given.run, given.other)
    (ours, theirs), prints = map(without_times, runs), [fingerprint(run) for run in runs]
    same = ours == theirs and prints[0] == prints[1]
    with given.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["run", "rows", "step", "updates", "critic_loss", "actor_loss", "policy", "the same"])
        for run, rows, print_ in zip(runs, (ours, theirs), prints, strict=True):
            last = [rows[-1].get(name) for name in ("step", "updates", "critic_loss", "actor_loss")]
            writer.writerow([run.name, len(rows), *last, print_, same])
    print(given.out.read_text(), end="")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
