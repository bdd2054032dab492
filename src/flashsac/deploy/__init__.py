"""From a run to the robot: export, and the loop that runs an exported policy. Only `export` may import torch."""
