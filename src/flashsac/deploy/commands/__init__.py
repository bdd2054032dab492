"""Sources of velocity commands: base says what a source is, make builds the one that the options name."""
