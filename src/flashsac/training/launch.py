"""Several processes of one command on this machine, by torchrun's own launcher."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import uuid

from flashsac.errors import FlashSACError
from flashsac.training.distributed import STORE

RESTARTS = 20
"""How often all ranks are started again. Each time they go on from the last checkpoint."""
PATIENCE = 3600
"""Seconds that ranks have to save a checkpoint when the run is stopped."""


def launch(arguments: list[str], ranks: int) -> int:
    """Run `flashsac` with these arguments in so many processes; returns the exit code.

    The ranks meet in a folder that only this user may enter, and talk over loopback. A port of torch's would trust
    whoever reaches it."""
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the ranks say themselves what is wrong
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // ranks)))
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory(prefix="flashsac-ranks-") as folder:
        os.environ |= {STORE: folder, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        return _run_all(arguments, ranks, os.path.join(folder, "launcher"))


def _run_all(arguments: list[str], ranks: int, meeting: str) -> int:
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint=meeting,
        rdzv_configs={"store_type": "file"},
        local_addr="127.0.0.1",
        max_restarts=RESTARTS,
        monitor_interval=0.2,
        logs_specs=DefaultLogsSpecs(),
        shutdown_timeout=PATIENCE,
    )
    try:
        elastic_launch(config, sys.executable)("-P", "-m", "flashsac", *arguments)
    except SignalException:
        return 130
    except ChildFailedError as error:
        codes = {failure.exitcode for failure in error.failures.values()}
        if codes <= {1, 2}:  # the rank has said why
            return max(codes)
        raise FlashSACError(
            f"the ranks ended {RESTARTS + 1} times; their last exit codes were {sorted(codes)}."
        ) from None
    return 0
