"""Sends under torture: workers killed at every point, and servers that fail at every step."""
