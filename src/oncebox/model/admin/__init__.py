"""Administration: tenants, API keys and idempotent requests."""
