"""A process that updates learners on its share of every batch; tests/core/test_sync.py starts several."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from flashsac.core.update import Learner
from flashsac.training.compile import compiler_for
from flashsac.training.distributed import join_ranks
from tests.core.joined import CASES, UPDATES, batches, learner_of, share_of, update


def main() -> None:
    out, compiled = Path(sys.argv[1]), sys.argv[2:] == ["compiled"]
    ranks = join_ranks()
    for name, case in CASES.items():
        for dtype in ["float32"] if compiled else case.dtypes:
            if compiled and name != "privileged":
                continue
            kind = getattr(torch, dtype)
            learner: Learner = learner_of(case, kind, ranks.sync)
            units = [learner.update_both, learner.update_critic]
            if compiled:
                units = [compiler_for(torch.device("cpu"))(unit) for unit in units]
            for index, drawn in enumerate(batches(case, kind, UPDATES)):
                update(units, index, share_of(drawn, ranks.rank, ranks.count))
            torch.save(learner.state_dict(), out / f"{name}-{dtype}-{ranks.rank}.pt")


main()
