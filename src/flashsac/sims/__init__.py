"""Simulators. `make_env` turns a task name into a `VecEnv`; nothing outside this folder knows which simulator runs."""
