"""Verifiers for providers that no table can describe."""
