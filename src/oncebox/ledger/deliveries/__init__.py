"""Deliveries: how they arrive, are claimed, worked on, settled and looked at."""
