"""Incoming webhooks: verify signatures, parse events, answer handshakes; pure functions."""
