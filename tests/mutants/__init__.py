"""Faults planted in a copy of the project: each must turn its tests red."""
