"""Every task of mjlab a second time, trained by FlashSAC: mjlab's own `train` and `play` find them under the name
TASK-FlashSAC. And the paper's G1 task: FlashSAC-G1-Flat and FlashSAC-G1-Rough.

mjlab imports this file when it starts (entry-point group `mjlab.tasks`); nothing else does.
"""

from __future__ import annotations

import dataclasses

import mjlab.tasks  # noqa: F401 (registers mjlab's own)
from mjlab.tasks.registry import list_tasks, load_env_cfg, load_rl_cfg, register_mjlab_task
from mjlab.tasks.velocity.config.g1.rl_cfg import unitree_g1_ppo_runner_cfg
from mjlab.tasks.velocity.rl import VelocityOnPolicyRunner

from flashsac.config.schema import AgentConfig
from flashsac.integrations.mjlab.runner import SUFFIX, FlashSACRunner, FlashSACRunnerCfg, settings_like
from flashsac.tasks.g1 import spec as g1_spec
from flashsac.tasks.g1.mjlab import OBS_GROUPS, g1_env_cfg

for task_id in list_tasks():
    settings = settings_like(load_rl_cfg(task_id))
    if settings is not None and not task_id.endswith(SUFFIX):
        play_cfg = load_env_cfg(task_id, play=True)
        register_mjlab_task(task_id + SUFFIX, load_env_cfg(task_id), play_cfg, settings, FlashSACRunner)


class G1Runner(FlashSACRunner):
    """The runner of the paper's G1 task. It knows the layout of the observations, so histories and mirrors work with
    mjlab's commands. It also knows the task's name, which tells `flashsac export` which robot its policies move."""

    annotate_spec = staticmethod(g1_spec.annotate_spec)

    def task(self) -> str:
        rough = self.env.unwrapped.cfg.scene.terrain.terrain_type != "plane"
        return f"mjlab:FlashSAC-G1-{'Rough' if rough else 'Flat'}"


# The paper's G1 task, with FlashSAC, its reward weights, context estimator and mirrored batches. TASK-PPO is the same
# with mjlab's PPO and the paper's weights for PPO, without estimator and mirror.
for name, rough in (("Flat", False), ("Rough", True)):
    task_id, experiment = f"FlashSAC-G1-{name}", f"flashsac_g1_{name.lower()}"
    register_mjlab_task(
        task_id,
        g1_env_cfg(rough=rough),
        g1_env_cfg(rough=rough, play=True),
        FlashSACRunnerCfg(
            num_steps_per_env=24,
            obs_groups=OBS_GROUPS,
            experiment_name=experiment,
            algorithm=AgentConfig(symmetry=True),
            history=5,
        ),
        G1Runner,
    )
    register_mjlab_task(
        f"{task_id}-PPO",
        g1_env_cfg(rough=rough, column="ppo"),
        g1_env_cfg(rough=rough, column="ppo", play=True),
        dataclasses.replace(unitree_g1_ppo_runner_cfg(), obs_groups=OBS_GROUPS, experiment_name=f"{experiment}_ppo"),
        VelocityOnPolicyRunner,
    )
