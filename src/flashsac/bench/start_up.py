"""How long a user waits from the command to the first updates, with an empty compile cache and with a full one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

from flashsac.bench.figures import Row
from flashsac.errors import FlashSACError

TASK, UPDATES = "mujoco:HalfCheetah-v4", 8


def start_up(*, compiled: bool = True) -> list[Row]:
    """Time whole processes of the laptop preset.

    Each one imports, takes 5,000 random steps, makes `UPDATES` updates and saves the checkpoint at the end."""
    with tempfile.TemporaryDirectory() as folder:
        # The first process finds an empty cache, the second one what the first compiled.
        environment = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
        environment["XDG_CACHE_HOME"] = folder
        return [
            Row(
                "start",
                f"laptop, {case}",
                f"command to update {UPDATES}",
                _seconds(f"{folder}/{case}", compiled, environment),
                "s",
            )
            for case in (("nothing compiled before", "compiled before") if compiled else ("uncompiled",))
        ]


def _seconds(run_dir: str, compiled: bool, environment: dict[str, str]) -> float:
    steps = 5_000 + 2 * UPDATES  # the preset learns once in two steps
    options = f"--preset laptop --steps {steps} --eval.every 0 --checkpoint-every 0 --no-video --compile {'on' if compiled else 'off'}"
    command = [sys.executable, "-P", "-m", "flashsac", "train", TASK, *options.split(), "--run-dir", run_dir]
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise FlashSACError(f"a short training did not work:\n{done.stderr}")
    return time.perf_counter() - start
