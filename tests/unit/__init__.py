"""The parts that need no database."""
