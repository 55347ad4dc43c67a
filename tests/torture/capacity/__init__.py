"""Capacity under torture: keys at all their limits, against webhooks, mail and probes."""
