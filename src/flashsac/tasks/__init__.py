"""Tasks that we define ourselves: rewards, terrain, randomization, symmetry."""
