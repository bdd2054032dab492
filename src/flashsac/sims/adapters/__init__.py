"""One file for each simulator."""
