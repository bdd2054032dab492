"""The places where trials of a sweep run: this machine, a SLURM cluster, Ray."""
