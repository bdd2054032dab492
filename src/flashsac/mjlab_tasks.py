"""Every task of mjlab a second time, trained by FlashSAC: mjlab's own `train` and `play` find them under the name TASK-FlashSAC.

mjlab imports this file when it starts (entry-point group `mjlab.tasks`); nothing else does.
"""

from __future__ import annotations

import mjlab.tasks  # noqa: F401 (registers mjlab's own)
from mjlab.tasks.registry import list_tasks, load_env_cfg, load_rl_cfg, register_mjlab_task

from flashsac.mjlab_runner import SUFFIX, FlashSACRunner, FlashSACRunnerCfg

for task_id in list_tasks():
    ppo = load_rl_cfg(task_id)
    from_pixels = getattr(getattr(ppo, "actor", None), "cnn_cfg", None) is not None
    if from_pixels or task_id.endswith(SUFFIX):
        continue
    register_mjlab_task(
        task_id + SUFFIX,
        load_env_cfg(task_id),
        load_env_cfg(task_id, play=True),
        FlashSACRunnerCfg(
            num_steps_per_env=ppo.num_steps_per_env,
            obs_groups=ppo.obs_groups,
            clip_actions=ppo.clip_actions,
            experiment_name=f"{ppo.experiment_name}_flashsac",
        ),
        FlashSACRunner,
    )
