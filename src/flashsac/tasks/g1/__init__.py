"""The paper's Unitree G1 task."""
