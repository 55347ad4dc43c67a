"""Query plans: every query on large tables, with and without statistics."""
