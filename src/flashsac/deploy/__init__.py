"""The loop that runs an exported policy on a robot. No torch."""
