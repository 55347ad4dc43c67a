"""Administration: tenants, API keys, sources, idempotency keys and the audit log."""
