"""HTTP API: one module per resource below ``/v1``, each with its table of routes."""
