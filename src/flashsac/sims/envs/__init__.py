"""What the records of `adapters` make: each simulator's environments behind the contract of `base.VecEnv`."""
