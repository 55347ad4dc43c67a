"""Artifacts under torture: claimed and waited for by crowds that are killed and cut off."""
