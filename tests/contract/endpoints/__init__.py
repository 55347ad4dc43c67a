"""Endpoints, on both databases."""
