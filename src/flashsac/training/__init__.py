"""One training run: build, loop, saving, hooks."""
