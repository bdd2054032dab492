"""The main memory that a trial takes, estimated before it starts."""

from __future__ import annotations

from flashsac.errors import MissingExtra
from flashsac.experiments.trial import Trial
from flashsac.sims.catalog import find_task, suites
from flashsac.sims.registry import choose_simulator
from flashsac.sims.simulator import EnvRequest

PROCESS = 1e9
"""Bytes of a process that trains: Python, torch, compiled code, networks."""


def trial_bytes(trial: Trial) -> float:
    """Estimate the bytes of a trial: its process, its environments and those of its evaluation, its replay."""
    config, task = trial.config, find_task(trial.task)
    if task is None:
        return PROCESS
    try:
        simulator = choose_simulator(task, config.env)
    except MissingExtra:  # the trial will say so
        return PROCESS
    request = EnvRequest.of(config.env, config.device)
    envs = config.env.num_envs + min(config.env.num_envs, config.eval.episodes)
    row = 4 * ((task.obs or 0) + (task.critic_obs or 0) + (task.action or 0) + 3)
    if suites()[task.suite].images:
        row += 3 * config.env.image_size**2
    replay = row * min(config.replay.capacity, config.steps) if config.replay.storage in ("auto", "ram") else 0
    return PROCESS + 1e6 * simulator.megabytes_per_env(task, request) * envs + replay
