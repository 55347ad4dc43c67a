"""``oncebox demo``: five accidents, played against a real service, with every figure counted."""
