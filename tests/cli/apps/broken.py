"""A program that cannot be imported."""

raise ValueError("broken on purpose")
