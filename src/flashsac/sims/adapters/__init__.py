"""One record for each simulator. Importing one loads neither torch nor the simulator: `flashsac list` must answer at
once."""
