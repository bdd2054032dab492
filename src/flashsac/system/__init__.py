"""What the operating system needs of us: memory, files, child processes, drawing without a screen."""
