"""Faults made on purpose, and the checks that nothing acknowledged was lost or done twice."""
