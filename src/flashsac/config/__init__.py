"""All settings: their schema, checks and presets. Standard library only."""
