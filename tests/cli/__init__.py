"""The command line, as an operator meets it."""
