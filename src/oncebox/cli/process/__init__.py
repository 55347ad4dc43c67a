"""Processes behind `serve` and `worker`: supervising parent, server child, worker child."""
