"""Experiments: what is done with many runs."""
