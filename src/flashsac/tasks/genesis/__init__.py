"""Our tasks on the Genesis engine."""
