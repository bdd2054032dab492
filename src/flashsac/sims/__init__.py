"""Simulators: the contract, the catalog of tasks, and the way from a task's name to its environments."""
