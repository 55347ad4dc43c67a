"""Webhook sources and rejected webhook requests."""
