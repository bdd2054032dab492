"""Batches of environments: sequential, in worker processes, and views of their observations."""
