"""Command line `oncebox`: commands, output, doctor checks, child processes, demo."""
