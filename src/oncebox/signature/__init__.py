"""Webhook schemes as tables: verify, read, answer handshakes, explain and sign; pure functions."""
