"""The tables: one scheme per provider and way of signing."""
