"""Where the trials of a sweep run: on this machine, on a SLURM cluster, on Ray."""
