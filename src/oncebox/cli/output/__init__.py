"""Output of commands: JSON, tables, outlines, progress bars, times, errors."""
