"""What lies on disk in a run directory, and who may write it."""
