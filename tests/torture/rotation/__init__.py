"""Rotation of the master key, killed at any moment."""
