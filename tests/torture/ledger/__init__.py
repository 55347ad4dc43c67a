"""The real ledger under torture: kills, zombies, lost replies, restarts and power cuts."""
