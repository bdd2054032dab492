"""How many environments fit into main memory."""

from __future__ import annotations

import math

from flashsac.errors import NotEnoughMemory
from flashsac.sims.simulator import EnvRequest, Simulator, Task
from flashsac.system.memory import available_memory, size_text


def check_memory(task: Task, simulator: Simulator, request: EnvRequest) -> None:
    """Refuse more environments than fit, before any is made: a machine out of memory kills the process, or stands
    still."""
    each, num_envs = 1e6 * simulator.megabytes_per_env(task, request), request.num_envs
    available = 0.9 * available_memory()
    if num_envs * each <= available:
        return
    fit = int(available / each)
    advice = (
        f"{fit:,} fit: --env.num-envs {2 ** int(math.log2(fit))}"
        if fit
        else "Not even one fits: end other programs, or raise the limit of this container or job."
    )
    raise NotEnoughMemory(
        f"{num_envs:,} environments of {task.full_name} take about {size_text(num_envs * each)}, but only "
        f"{size_text(available)} of memory are free for them. {advice}"
    )
